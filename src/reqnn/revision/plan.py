"""The dry run: what the rules find out while a copy of the model runs on quaternions for the first time.

Each leaf learns in it how wide it has to be and whether it lives in the quaternion or in the real part. Rules call the
plan through their tensor's `Context`; outside of a dry run there is none, and nothing changes any more.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from reqnn.nn.predicted_vectors import tag_vectors_hook
from reqnn.nn.quaternion_to_real import becomes_real_before
from reqnn.revision.learned import LearnedParameters
from reqnn.revision.parameters import Parameters, Restart
from reqnn.rules.point_function import PointFunction
from reqnn.tensor import QuaternionTensor, quaternions
from reqnn.tensor.protocols import Rule
from reqnn.tensor.running import follow


class RealBefore(Exception):
    """The real part begins before this layer: the copy has to be revised anew.

    Args:
        layer: its name.
        gate: the operation that its output goes into, if it is not the end of the network.
    """

    def __init__(self, layer: str, gate: str = "") -> None:
        super().__init__(layer)
        self.layer, self.gate = layer, gate


@dataclass(frozen=True)
class Met:
    """One operation of the dry run: in which layer, what it is, by which rule, and what came out."""

    layer: str
    operation: str
    row: str
    kind: str
    extension: bool = False


class Plan(Parameters):
    """What is known about the copy so far.

    Args:
        model: the copy that is being revised.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.met_operations: list[Met] = []
        self.heads: list[str] = []
        self.vector_layers: dict[str, str] = {}
        self.keep: set[str] = set()  # layers that must not become real, since coordinates come from them
        self.makers: dict[int, tuple[weakref.ref[Tensor], str]] = {}  # real tensors by their ids → who returned them last
        self.returned_three: list[str] = []  # who returned real tensors that may be clouds
        self.learned = LearnedParameters(lambda owner, key: self._full_name(owner, key))
        self.handles: list[RemovableHandle] = []  # of the hooks that say which module runs

    def begin(self) -> None:
        """Start a pass."""
        self.handles += follow(self.model)
        self.index()
        self.met_operations.clear()
        self.heads.clear()
        self.returned_three.clear()
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

    def met_head(self) -> None:
        """Note Quaternion2Real before the first Linear on (B, C) features."""
        self.heads.append(self.layer())
        self.met("Quaternion2Real")

    def met_module(self, name: str, module: nn.Module) -> None:
        """Note a leaf of the real part."""
        row = next((row for row, kinds in _REAL_ROWS.items() if isinstance(module, kinds)), "")
        if row:
            self._note(Met(name, type(module).__name__, row, "real"))

    def _note(self, met: Met) -> None:
        if met not in self.met_operations:
            self.met_operations.append(met)

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
        if not isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
            return
        transposed, weight = isinstance(module, nn.modules.conv._ConvTransposeNd), module.weight
        if weight.shape[transposed] % 3 or (isinstance(module, nn.modules.conv._ConvTransposeNd) and module.groups > 1):
            return
        self.vector_layers[name] = "linear" if isinstance(module, nn.Linear) else "convolution"
        third = weight.detach()[:, ::3] if transposed else weight.detach()[::3]
        self.replace(module, "weight", nn.Parameter(third.clone(), requires_grad=weight.requires_grad))
        if isinstance(module, nn.Linear):
            module.out_features //= 3
        else:
            module.out_channels //= 3
        module.register_forward_hook(tag_vectors_hook)
        raise Restart


_REAL_ROWS: dict[str, tuple[type[nn.Module], ...]] = {
    "Convolution": (nn.Linear, nn.modules.conv._ConvNd),
    "Batch-normalization": (_BatchNorm,),
    "ReLU": (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.GELU, nn.SiLU),
    "Max-pooling": (nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AdaptiveMaxPoolNd),
    "Dropout": (nn.modules.dropout._DropoutNd,),
}
