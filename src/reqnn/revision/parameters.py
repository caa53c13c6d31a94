"""The parameters of a copy that is being revised: whose they are, and what the dry run changes about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from reqnn.errors import NoRuleError
from reqnn.nn.activation import QuaternionReLU
from reqnn.nn.batch_norm import turn_into_batch_norm
from reqnn.nn.exchange import exchange_class
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import RemovedBias
from reqnn.tensor.running import name_of_running


class UsedInParts(Exception):
    """A parameter meets coordinates as a whole and in slices that count channels: it keeps its size, weights are averaged."""


class Restart(Exception):
    """A parameter was changed that this pass has used already."""


class Parameters:
    """Every parameter and buffer of a copy by identity.

    Args:
        model: the copy that is being revised.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.resized: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.dropped: list[str] = []
        self.parts: set[str] = set()  # parameters that keep their size, since the code takes slices of them
        self.visited: set[str] = set()
        self.reshaped: list[str] = []
        self.readings = 1  # how many numbers a feature gives where it becomes real
        self.index()

    def index(self) -> None:
        """Find every module and parameter by identity."""
        self.names = {id(module): name for name, module in self.model.named_modules()}
        self._owners: dict[int, tuple[Tensor, nn.Module, str]] = {}  # holds the tensors, so that no id is used again
        for module in self.model.modules():
            for key, value in (*module._parameters.items(), *module._buffers.items()):
                if value is not None:
                    self._owners[id(value)] = (value, module, key)

    def layer(self) -> str:
        """Where the run is now."""
        return name_of_running(self.names) or ""

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
        found = self.owner(weight) or self._parametrized(weight)
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

    def _parametrized(self, weight: Tensor) -> tuple[nn.Module, str, Tensor] | None:
        """The parameter of the running module that a weight is computed from (weight norm), which has its shape."""
        module = self.model.get_submodule(self.layer())
        if not hasattr(module, "parametrizations") and not any(value is weight for value in vars(module).values()):
            return None
        alike = [p for p in module.parameters() if p.shape == weight.shape and p.stride() == weight.stride()]
        return self.owner(alike[0]) if alike else None

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
            exchange_class(found[0], QuaternionReLU())


def _same_axis(parameter: Tensor, view: Tensor, dim: int) -> int:
    """The axis of a parameter that axis `dim` of a view of it runs along."""
    for axis in range(parameter.dim()):
        if (parameter.shape[axis], parameter.stride(axis)) == (view.shape[dim], view.stride(dim)):
            return axis
    raise NoRuleError(
        f"a parameter of shape {tuple(parameter.shape)} is reshaped to {tuple(view.shape)} before it meets coordinates"
    )
