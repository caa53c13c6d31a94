"""The dry run: what the rules find out and change while a copy of the model runs on quaternions for the first time.

Each leaf learns in it how wide it has to be and whether it lives in the quaternion or in the real part. Rules call the
plan through their tensor's `Context`; outside of a dry run there is none, and nothing changes any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from reqnn.errors import NoRuleError
from reqnn.nn.activation import turn_into_relu
from reqnn.nn.batch_norm import turn_into_batch_norm
from reqnn.nn.predicted_vectors import tag_vectors_hook
from reqnn.nn.quaternion_to_real import becomes_real_before
from reqnn.revision.learned import LearnedParameters
from reqnn.rules.point_function import PointFunction
from reqnn.tensor import QuaternionTensor, quaternions
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import RemovedBias
from reqnn.tensor.protocols import Rule
from reqnn.tensor.running import follow, name_of_running


class RealBefore(Exception):
    """The real part begins before this layer: the copy has to be revised anew.

    Args:
        layer: its name.
        gate: the operation that its output goes into, if it is not the end of the network.
    """

    def __init__(self, layer: str, gate: str = "") -> None:
        super().__init__(layer)
        self.layer, self.gate = layer, gate


class UsedInParts(Exception):
    """A parameter meets coordinates as a whole and in slices that count channels: it keeps its size, weights are averaged."""


class Restart(Exception):
    """A parameter was changed that this pass has used already."""


@dataclass(frozen=True)
class Met:
    """One operation of the dry run: in which layer, what it is, by which rule, and what came out."""

    layer: str
    operation: str
    row: str
    kind: str
    extension: bool = False


class Plan:
    """What is known about the copy so far.

    Args:
        model: the copy that is being revised.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.met_operations: list[Met] = []
        self.resized: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.dropped: list[str] = []
        self.heads: list[str] = []
        self.vector_layers: dict[str, str] = {}
        self.keep: set[str] = set()  # layers that must not become real, since coordinates come from them
        self.parts: set[str] = set()  # parameters that keep their size, since the code takes slices of them
        self.visited: set[str] = set()
        self.reshaped: list[str] = []
        self.makers: dict[int, tuple[weakref.ref[Tensor], str]] = {}  # real tensors by their ids → who returned them last
        self.readings = 1  # how many numbers a feature gives where it becomes real
        self.learned = LearnedParameters(lambda owner, key: self._full_name(owner, key))
        self.handles: list[RemovableHandle] = []  # of the hooks that say which module runs
        self.index()

    def index(self) -> None:
        """Find every module and parameter by identity."""
        self.names = {id(module): name for name, module in self.model.named_modules()}
        self._owners: dict[int, tuple[Tensor, nn.Module, str]] = {}  # holds the tensors, so that no id is used again
        for module in self.model.modules():
            for key, value in (*module._parameters.items(), *module._buffers.items()):
                if value is not None:
                    self._owners[id(value)] = (value, module, key)

    def begin(self) -> None:
        """Start a pass."""
        self.handles += follow(self.model)
        self.index()
        self.met_operations.clear()
        self.heads.clear()
        self.learned.begin()

    def unvisited(self) -> list[str]:
        """Leaves with parameters that no pass has reached."""
        return [
            name
            for name, module in self.model.named_modules()
            if name not in self.visited and not list(module.children()) and list(module.parameters())
        ]

    def maker_of(self, value: Any) -> str:
        """The outermost submodule that returned a real tensor, or what it is a view of; "" if none did."""
        for candidate in (value, getattr(value, "_base", None)):
            tensor, name = self.makers.get(id(candidate), (lambda: None, ""))
            if candidate is not None and tensor() is candidate:
                return name
        return ""

    def layer(self) -> str:
        """Where the run is now."""
        return name_of_running(self.names) or ""

    # -- what operations were met ----------------------------------------------------------------------------------

    def record(self, rule: Rule, result: Any) -> None:
        """Note an operation on quaternions; outputs remember the layer with weights that made them."""
        layer = self.layer()
        outputs = list(quaternions(result))
        if rule.row not in ("structure", "algebra", "Dropout"):
            for out in outputs:
                out.source = layer if rule.row == "Convolution" else None
        if rule.row == "Convolution":
            for out in outputs:
                out.fed_by = layer
        if rule.row not in ("structure", "algebra"):
            self._note(Met(layer, rule.name, rule.row, "quaternion" if outputs else "real", rule.extension))

    def met(self, row: str, operation: str = "", kind: str = "real", extension: bool = False) -> None:
        """Note a row of Table 1 that has no torch function."""
        self._note(Met(self.layer(), operation or row, row, kind, extension))

    def met_function(self, function: PointFunction) -> None:
        """Note a well-known function on points."""
        self._note(Met(self.layer(), function.__name__, function.known.row if function.known else "user", "index"))

    def met_real(self) -> None:
        """Note Quaternion2Real before a named submodule."""
        self._note(Met(self.layer(), "Quaternion2Real", "Quaternion2Real", "real"))

    def met_head(self) -> None:
        """Note Quaternion2Real before the first Linear on (B, C) features."""
        self.heads.append(self.layer())
        self.met_real()

    def met_module(self, name: str, module: nn.Module) -> None:
        """Note a leaf of the real part."""
        row = next((row for kind, row in _REAL_ROWS.items() if isinstance(module, kind)), "")
        if row:
            self._note(Met(name, type(module).__name__, row, "real"))

    def _note(self, met: Met) -> None:
        if met not in self.met_operations:
            self.met_operations.append(met)

    # -- what has to change ----------------------------------------------------------------------------------------

    def owner(self, value: Any) -> tuple[nn.Module, str, Tensor] | None:
        """The module and name of a parameter, or of the parameter that this tensor is a view of."""
        if not isinstance(value, Tensor):
            return None
        for candidate in (value, value._base):
            if candidate is not None and id(candidate) in self._owners:
                tensor, module, key = self._owners[id(candidate)]
                if tensor is candidate:
                    return module, key, candidate
        return None

    def _full_name(self, module: nn.Module, key: str) -> str:
        prefix = self.names.get(id(module), "")
        return f"{prefix}.{key}" if prefix else key

    def resize(self, weight: Tensor, dim: int, layout: str) -> Tensor:
        """Make a parameter's axis as long as the layout has entries."""
        found = self.owner(weight)
        if found is None:
            raise NoRuleError(
                f"a real tensor of shape {tuple(weight.shape)} that is no parameter multiplies the coordinates x, y, z"
            )
        module, key, parameter = found
        axis = dim % weight.dim() if parameter is weight else _same_axis(parameter, weight, dim)
        starts = torch.tensor(lay.starts(layout), device=parameter.device)
        new = self._set_width(module, parameter.detach().index_select(axis, starts), key)
        if parameter is not weight:
            self.reshaped.append(self._full_name(module, key))
            raise Restart
        return new

    def keeps_size(self, weight: Tensor) -> bool:
        """Whether a parameter must not be re-sized; raise `UsedInParts` if it is a slice of one that was."""
        found = self.owner(weight)
        if found is None:
            return False
        name = self._full_name(found[0], found[1])
        if found[2] is not weight and name in self.resized:
            raise UsedInParts(name)
        return name in self.parts

    def replace(self, module: nn.Module, key: str, value: Tensor) -> None:
        """Put another tensor in a parameter's place."""
        old = module._parameters.get(key, module._buffers.get(key))
        assert old is not None
        names = [name for name, held in (*self.model.named_parameters(), *self.model.named_buffers()) if held is old]
        self.resized[names[0]] = (self.resized.get(names[0], (tuple(old.shape),))[0], tuple(value.shape))
        for owner in self.model.modules():  # a parameter may have several names
            stores: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers)
            for store in stores:
                store.update({name: value for name, held in store.items() if held is old})
        self._owners[id(value)] = (value, module, key)

    def match(self, module: nn.Module, channels: int) -> None:
        """Make a layer of the real part as wide as what arrives.

        A vector gives one number there, not three; a feature gives one, or several where it is read in a frame.
        """
        if isinstance(module, _BatchNorm):
            if self.readings > 1 and channels > module.num_features:
                self._widen_batch_norm(module, channels)
            return
        weight = module._parameters.get("weight")
        if weight is not None and channels < weight.shape[1]:
            self._set_width(module, weight.detach()[:, :channels].clone())
        elif weight is not None and channels > getattr(module, "in_features", 0) + getattr(module, "in_channels", 0):
            self.widen_weight(weight, channels)

    def widen_weight(self, weight: Tensor, channels: int) -> Tensor:
        """Make a linear layer of the real part take more numbers; those of one feature share what was its weight."""
        found, width = self.owner(weight), weight.shape[1]
        if self.readings == 1 or channels <= width:
            return weight  # not our doing: torch says what does not fit
        if found is None or getattr(found[0], "groups", 1) > 1:
            raise NoRuleError(f"a real layer with a weight of shape {tuple(weight.shape)} is given {channels} numbers")
        repeats = [1, -(-channels // width), *[1] * (weight.dim() - 2)]
        return self._set_width(found[0], (weight.detach() * (width / channels)).repeat(repeats)[:, :channels].clone(), found[1])

    def _set_width(self, module: nn.Module, weight: Tensor, key: str = "weight") -> Tensor:
        old = module._parameters.get(key)
        new = weight if old is None else nn.Parameter(weight, requires_grad=old.requires_grad)
        self.replace(module, key, new)
        for width in ("in_channels", "in_features"):
            if hasattr(module, width):
                setattr(module, width, weight.shape[1])
        return new

    def _widen_batch_norm(self, module: _BatchNorm, channels: int) -> None:
        for key in ("weight", "bias", "running_mean", "running_var"):
            old = getattr(module, key, None)
            if old is not None:
                wide = old.detach().repeat(-(-channels // old.shape[0]))[:channels].clone()
                self.replace(module, key, nn.Parameter(wide) if isinstance(old, nn.Parameter) else wide)
        module.num_features = channels

    def drop(self, bias: Tensor) -> bool:
        """Remove a bias parameter; False where the tensor is none."""
        found = self.owner(bias)
        if found is None or not isinstance(found[2], nn.Parameter):
            return False
        module, key, parameter = found
        self.dropped.append(self._full_name(module, key))
        if type(module).__module__.startswith("torch.nn"):
            module._parameters[key] = None
        else:
            del module._parameters[key]
            zeros = torch.zeros_like(parameter, requires_grad=False).as_subclass(RemovedBias)
            module.register_buffer(key, zeros, persistent=False)
        return True

    def to_batch_norm(
        self, buffer: Tensor | None, channels: int, turn: Callable[[Any, int], None] = turn_into_batch_norm
    ) -> bool:
        """Swap the batch-norm module that is being called; False where none is."""
        found = self.owner(buffer)
        if found is None or not isinstance(found[0], _BatchNorm):
            return False
        turn(found[0], channels)
        self.index()
        self.visited |= {self.names[id(part)] for part in found[0].modules()}
        return True

    def to_relu(self, weight: Tensor) -> None:
        """Swap the PReLU module that is being called."""
        found = self.owner(weight)
        if found is not None and isinstance(found[0], nn.PReLU):
            self.dropped.append(self._full_name(found[0], found[1]))
            turn_into_relu(found[0])

    def real_before(self, name: str, gate: str = "") -> None:
        """Ask for a new start with Quaternion2Real before this layer, unless it stands there already."""
        if not becomes_real_before(self.model.get_submodule(name)):
            raise RealBefore(name, gate)

    def output_vectors(self, x: QuaternionTensor) -> None:
        """The layer that made x predicts coordinates (an offset, a reconstruction): its output channels are vectors."""
        name = x.source
        if name is None or name in self.vector_layers:
            return
        module = self.model.get_submodule(name)
        if not isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)) or module.weight.shape[0] % 3:
            return
        weight = module.weight
        self.vector_layers[name] = "linear" if isinstance(module, nn.Linear) else "convolution"
        self.replace(module, "weight", nn.Parameter(weight.detach()[::3].clone(), requires_grad=weight.requires_grad))
        if isinstance(module, nn.Linear):
            module.out_features //= 3
        else:
            module.out_channels //= 3
        module.register_forward_hook(tag_vectors_hook)
        raise Restart


def _same_axis(parameter: Tensor, view: Tensor, dim: int) -> int:
    """The axis of a parameter that axis `dim` of a view of it runs along."""
    for axis in range(parameter.dim()):
        if (parameter.shape[axis], parameter.stride(axis)) == (view.shape[dim], view.stride(dim)):
            return axis
    raise NoRuleError(
        f"a parameter of shape {tuple(parameter.shape)} is reshaped to {tuple(view.shape)} before it meets coordinates"
    )


_REAL_ROWS: dict[type[nn.Module], str] = {
    nn.Linear: "Convolution",
    nn.modules.conv._ConvNd: "Convolution",
    _BatchNorm: "Batch-normalization",
    nn.ReLU: "ReLU",
    nn.LeakyReLU: "ReLU",
    nn.PReLU: "ReLU",
    nn.ELU: "ReLU",
    nn.GELU: "ReLU",
    nn.SiLU: "ReLU",
    nn.modules.pooling._MaxPoolNd: "Max-pooling",
    nn.modules.pooling._AdaptiveMaxPoolNd: "Max-pooling",
    nn.modules.dropout._DropoutNd: "Dropout",
}
