"""What belongs to one forward pass of a revised network and travels with its quaternion tensors.

No global state: two threads may run two revised networks at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import defaults
from reqnn.errors import NoRuleError
from reqnn.kernels.run import plain_torch_now
from reqnn.points import principal_frame, right_handed_frames
from reqnn.tensor.layout import has_vectors, width
from reqnn.tensor.learned_call import LearnedCall
from reqnn.tensor.markers import RemovedBias
from reqnn.tensor.protocols import DryRun, Rules
from reqnn.tensor.running import owner_of_call, run_of


@dataclass(eq=False)
class Context:
    """The rule set and the cloud of one forward pass.

    Attributes:
        rules: where operations are looked up.
        strict: refuse rules beyond the paper.
        batch: the number of clouds, None where the input has no batch axis.
        auto_real: put Quaternion2Real before each Linear on (B, C) features.
        points: (B, N, 3) coordinates of the input, for the PCA frame.
        members: (N,) the cloud of each point, if the input is a list of several clouds.
        names: id(module) → name, for messages.
        plan: the dry run that is under way, which may re-size parameters; None in ordinary use.
        memo: what gathered storage has computed from the features of this pass.
        unmeasured: statistics of batch-norms that the next layer is to measure; the end of the pass measures what is left.
        matrices_in_frame: real matrices (…, 3, 3) multiply coordinates in the PCA frame.
        whole: the pass of the batch that this one, of a single cloud in a loop, is part of.
    """

    rules: Rules
    strict: bool = False
    batch: int | None = None
    auto_real: bool = False
    points: Tensor | None = None
    members: Tensor | None = None
    names: dict[int, str] = field(default_factory=dict)
    plan: DryRun | None = None
    memo: dict[Any, Any] = field(default_factory=dict)
    unmeasured: list[Any] = field(default_factory=list)
    matrices_in_frame: bool = False
    whole: Context | None = None
    _frames: Tensor | None = None
    _clouds: dict[int, Context] = field(default_factory=dict)

    @property
    def gathers(self) -> bool:
        """Whether gathered storage may be used now: not in the dry run, in graphs, or where ``fused=False`` says so."""
        return self.plan is None and bool(self.rules.option("fused")) and plain_torch_now()

    def finish(self) -> None:
        """End the pass: measure the statistics that no layer has asked for."""
        while self.unmeasured:
            self.unmeasured[0].resolve()

    def of_cloud(self, index: int) -> Context:
        """The same pass for one cloud of the batch, as a loop over clouds sees it: the PCA frame is that cloud's."""
        if index not in self._clouds:
            assert self.points is not None
            cloud = self.points[index : index + 1]
            self._clouds[index] = replace(self, points=cloud, whole=self, _frames=None, _clouds={})
        return self._clouds[index]

    def frames(self) -> Tensor:
        """(B, F, 3, 3) PCA frames of the clouds, columns the axes: one, or all four right-handed ones; per point of a list.

        Paper, section 3.3, "3D coordinates weighting": the frame rotates with the points.
        """
        if self._frames is None:
            if self.points is None:
                raise NoRuleError("a PCA frame is needed, but this pass has no input cloud")
            if self.members is None:
                self._frames = self._frames_of(self.points.detach())
            else:
                clouds = [self.points[:, self.members == cloud] for cloud in range(int(self.members.max()) + 1)]
                self._frames = torch.cat([self._frames_of(cloud.detach()) for cloud in clouds])[self.members]
        return self._frames

    def _frames_of(self, points: Tensor) -> Tensor:
        average = self.rules.option("frame") == "average"
        return right_handed_frames(points) if average else principal_frame(points).unsqueeze(1)

    def fit(self, weight: Tensor, dim: int, layout: str) -> Tensor:
        """A parameter whose axis `dim` meets an axis with this layout: re-sized during the dry run, checked after it."""
        if weight.shape[dim] == len(layout):
            return weight
        if not has_vectors(layout):
            raise NoRuleError(
                f"{len(layout)} features meet a parameter of shape {tuple(weight.shape)}, whose axis {dim} was re-sized for "
                "coordinates. A layer must not serve coordinates and features; use two layers"
            )
        kept = self.plan is not None and self.plan.keeps_size(weight)
        if weight.shape[dim] != width(layout):
            raise NoRuleError(f"expected {width(layout)} channels, but the parameter has {weight.shape[dim]} on axis {dim}")
        found = None if self.plan is None else self.plan.owner(weight)
        part = not isinstance(weight, nn.Parameter) and found is not None and found[2] is not weight
        if self.names and (part or kept or self.plan is None):
            if self.strict:
                raise NoRuleError(
                    "weights per coordinate from parts of a parameter go beyond the paper; strict=True refuses them"
                )
            if self.plan is not None:
                self.plan.met("Weights per coordinate", "part of a parameter", "quaternion", extension=True)
            return average_weights(weight, dim, layout)
        if self.plan is None:
            raise NoRuleError(
                f"a parameter of shape {tuple(weight.shape)} is still as wide as the coordinates ({width(layout)} numbers, "
                f"{len(layout)} vectors); revise the model again with an input of this layout"
            )
        return self.plan.resize(weight, dim, layout)

    def widen(self, weight: Tensor, channels: int) -> Tensor:
        """The weight of a real layer that is given so many numbers: re-sized during the dry run."""
        return weight if self.plan is None else self.plan.widen_weight(weight, channels)

    def learned(self, name: str, owner: nn.Module | None = None) -> LearnedCall:
        """The call of an operation with learned parameters that is under way, in `owner` or the innermost module."""
        running = owner_of_call() if owner is None else run_of(owner)
        if running is None:
            raise NoRuleError(
                f"the rule set '{self.rules.name}' learns parameters for {name}, and there is no module to hold them: it "
                "serves in networks that reqnn.revise has revised with it"
            )
        index = running.calls[name] = running.calls.get(name, -1) + 1
        return LearnedCall(name, running.module, index, self.plan)

    def drop_bias(self, bias: Tensor | None) -> None:
        """Paper, section 3.3, "Convolution": the bias goes. Raises where one is still there after the dry run."""
        if bias is None or isinstance(bias, RemovedBias):
            return
        if self.plan is None or not self.plan.drop(bias):
            raise NoRuleError("a bias is a fixed direction: it does not rotate with the features")


def average_weights(weight: Tensor, dim: int, layout: str) -> Tensor:
    """One weight per entry: the mean of those of x, y and z, for parts of a parameter, which is not re-sized as a whole."""
    parts = weight.split([width(entry) for entry in layout], dim)
    return torch.cat([part.mean(dim, keepdim=True) for part in parts], dim)


def default_context() -> Context:
    """The paper's rules, outside of any network."""
    return Context(defaults.find_rules("paper"))
