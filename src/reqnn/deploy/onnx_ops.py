"""Operations of a revised network that the ONNX exporter of torch does not know, written in operators of ONNX."""

from __future__ import annotations

from typing import Any

import torch

from reqnn.extras import need

_FLOAT, _DOUBLE = 1, 11  # onnx.TensorProto


def translations() -> dict[Any, Any]:
    """What `torch.onnx.export` takes as `custom_translation_table`."""
    op, core = need("onnxscript").opset18, need("onnxscript.function_libs.torch_lib.ops.core")

    def sort_stable(x: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
        """By TopK of all entries: the standard puts the lower index first among equal ones, as a stable sort does."""
        size = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))
        return op.TopK(x, size, axis=dim, largest=descending, sorted=True)

    def cdist_forward(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
        """√(‖x‖² − 2⟨x, y⟩ + ‖y‖²) about the mean, in double.

        There the error, 1e-8 of the cloud's size at most, is below the tolerance of ties in float32. Differences would take
        N²·D numbers of memory.
        """
        a, b = op.Cast(x, to=_DOUBLE), op.Cast(y, to=_DOUBLE)
        middle = op.ReduceMean(a, op.Constant(value_ints=[-2]), keepdims=1)
        a, b = op.Sub(a, middle), op.Sub(b, middle)
        last = op.Constant(value_ints=[-1])
        rows, columns = (op.ReduceSum(op.Mul(z, z), last, keepdims=1) for z in (a, b))
        b, columns = op.Transpose(b, perm=[0, 2, 1]), op.Transpose(columns, perm=[0, 2, 1])
        product = op.MatMul(a, b)
        square = op.Relu(op.Sub(op.Add(rows, columns), op.Add(product, product)))
        return op.CastLike(op.Sqrt(square), x)

    def exact(value: float) -> Any:
        """A constant in float64: numbers in attributes are float32."""
        return op.Constant(value=need("onnx_ir").tensor(float(value), dtype=need("onnx_ir").DataType.DOUBLE))

    def scalar_tensor(s: Any, dtype: int = _FLOAT, **_: Any) -> Any:
        """Torch's goes by way of float32, in float64 too: ε = 1e-5 would be wrong by 2.5e-8."""
        return exact(s) if dtype == _DOUBLE and isinstance(s, (float, int)) else op.Cast(s, to=_FLOAT if dtype == -1 else dtype)

    def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
        """Max(x, slope·x), for slopes up to 1: ONNX Runtime has no LeakyRelu in float64."""
        if negative_slope > 1 or x.dtype != _DOUBLE:
            return op.LeakyRelu(x, alpha=negative_slope)
        return op.Max(x, op.Mul(x, exact(negative_slope)))

    def batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
        """In float64 written out: the ε of BatchNormalization is an attribute, float32, off by 1e-8 if the variance is 0."""
        if x.dtype != _DOUBLE:
            return core.aten__native_batch_norm_no_training(x, weight, bias, mean, var, momentum, eps)
        shape = op.Constant(value_ints=[-1, *[1] * (len(x.shape) - 2)])
        scale = op.Div(exact(1) if weight is None else weight, op.Sqrt(op.Add(var, exact(eps))))
        out = op.Mul(op.Sub(x, op.Reshape(mean, shape)), op.Reshape(scale, shape))
        out = out if bias is None else op.Add(out, op.Reshape(bias, shape))
        return out, op.Identity(mean), op.Identity(var)

    def pointwise(name: str) -> Any:
        """A convolution as a matrix product if its kernel covers one place: ONNX Runtime has no Conv in float64."""
        known = getattr(core, f"aten_{name}")

        def convolution(x: Any, weight: Any, bias: Any = None, *places: Any, **named: Any) -> Any:
            plain = all(set(given) == {one} for given, one in zip(places, (1, 0, 1), strict=False))  # stride, padding, dilation
            small = set(weight.shape[2:]) == {1} and weight.shape[1] == x.shape[1]
            if x.dtype != _DOUBLE or not (plain and small) or named:
                return known(x, weight, bias, *places, **named)
            matrix = op.Reshape(weight, op.Constant(value_ints=[weight.shape[0], weight.shape[1]]))
            rows = op.MatMul(matrix, op.Reshape(x, op.Constant(value_ints=[0, 0, -1])))
            rows = rows if bias is None else op.Add(rows, op.Reshape(bias, op.Constant(value_ints=[-1, 1])))
            size = op.Concat(op.Shape(rows, start=0, end=2), op.Shape(x, start=2), axis=0)
            return op.Reshape(rows, size)

        return convolution

    return {
        torch.ops.aten._native_batch_norm_legit_no_training.default: batch_norm,
        torch.ops.aten.conv1d.default: pointwise("conv1d"),
        torch.ops.aten.conv2d.default: pointwise("conv2d"),
        torch.ops.aten.sort.stable: sort_stable,
        torch.ops.aten._cdist_forward.default: cdist_forward,
        torch.ops.aten.leaky_relu.default: leaky_relu,
        torch.ops.aten.scalar_tensor.default: scalar_tensor,
    }


def simplify(model: Any) -> None:
    """Fold constants and merge equal subgraphs of a model, in place; half of the export's time less than torch's `optimize`.

    That also tries every pattern of its rewriter at every node, for a file that runs no faster. Notes on nodes, which hold
    lines of code and paths of this machine, are removed.
    """
    passes = need("onnx_ir.passes.common")
    need("onnxscript.optimizer").fold_constants(model)
    for change in (
        passes.RemoveUnusedNodesPass(),
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        passes.LiftSubgraphInitializersToMainGraphPass(),
        passes.DeduplicateInitializersPass(),
        passes.CommonSubexpressionEliminationPass(),
        passes.ClearMetadataAndDocStringPass(),
    ):
        change(model)
