"""Operations of a revised network that the ONNX exporter of torch does not know, written in operators of ONNX."""

from __future__ import annotations

from typing import Any

import torch

from reqnn.extras import need

_DOUBLE = 11  # onnx.TensorProto.DOUBLE


def translations() -> dict[Any, Any]:
    """What `torch.onnx.export` takes as `custom_translation_table`."""
    op = need("onnxscript").opset18

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

    def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
        """Max(x, slope·x), for slopes up to 1: ONNX Runtime has no LeakyRelu in float64."""
        if negative_slope > 1 or x.dtype != _DOUBLE:
            return op.LeakyRelu(x, alpha=negative_slope)
        high = float(torch.tensor(negative_slope))  # constants are float32: two of them make one of float64
        parts = (op.CastLike(op.Constant(value_float=part), x) for part in (high, negative_slope - high))
        return op.Max(x, op.Mul(x, op.Add(*parts)))

    return {
        torch.ops.aten.sort.stable: sort_stable,
        torch.ops.aten._cdist_forward.default: cdist_forward,
        torch.ops.aten.leaky_relu.default: leaky_relu,
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
