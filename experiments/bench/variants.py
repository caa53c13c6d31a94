"""The compared networks, and the timed calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.surfaces import surfaces
from reqnn.kernels.run import switched
from reqnn.rules import get_rules
from reqnn.train.calibration import recalibrate
from reqnn.zoo import create_model

ORIGINAL, PLAIN, FUSED = VARIANTS = ("original", "REQNN plain", "REQNN fused")
MEANING = {
    ORIGINAL: "the ordinary network in plain torch, with an explicit (B, 2C, N, k) edge tensor where it has edges",
    PLAIN: "the revised network by the generic rules alone, as the paper writes its operations: no fused blocks, no kernels",
    FUSED: "the revised network as `reqnn.revise` gives it",
}
RULE_SETS = {
    "paper": "the network revised by the paper's rules, the same as REQNN fused",
    "vector-neurons": "revised by the layers of Vector Neurons",
    "full": "revised by the rules for full quaternions",
}
INFERENCE, TRAINING = "inference", "training step"
MODES = {
    INFERENCE: "eval mode, no gradients",
    TRAINING: "train mode: forward, cross-entropy, backward; no optimizer's step, which is the same for all. Of a single cloud "
    "the batch-norms on the global feature run in eval mode",
}
CLASSES = 40


@dataclass(frozen=True)
class Variant:
    """A network, and whether compiled kernels may run in it."""

    name: str
    network: nn.Module
    kernels: bool = True

    @contextmanager
    def switched(self) -> Iterator[None]:
        """Kernels on or off, as the variant has them."""
        with switched(self.kernels):
            yield


def build(model: str, name: str, seed: int = 0, **options: Any) -> Variant:
    """One variant of a registered network, or its revision by a rule set, recalibrated.

    With its initial statistics an untrained quaternion network in eval mode shrinks features layer by layer until all
    neighbours tie, which would change the time of the searches.
    """
    torch.manual_seed(seed)
    revised, kernels = name in (PLAIN, FUSED, *RULE_SETS), name != PLAIN
    rules = get_rules(name if name in RULE_SETS else "paper").with_options(fused=kernels)
    with switched(kernels):
        network = create_model(model, equivariant=revised, num_classes=CLASSES, rules=rules, **options)
        recalibrate(network, [clouds(4, max(256, int(getattr(network, "min_points", 1))), seed)[0]])
    return Variant(name, network, kernels)


def clouds(batch: int, points: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points on surfaces (batch, points, 3) in float32, and labels (batch,)."""
    xyz = surfaces(batch, points, seed, torch.float32)[0]
    return xyz, torch.arange(batch) % CLASSES


def infer(network: nn.Module, xyz: Tensor) -> Tensor:
    """Logits, in eval mode and without gradients."""
    with torch.no_grad():
        logits: Tensor = network.eval()(xyz)
    return logits


def train_step(network: nn.Module, xyz: Tensor, labels: Tensor) -> Tensor:
    """Loss, and the gradients of all parameters.

    For a batch of one cloud, batch-norms on the global feature run in eval mode: one number per channel has no variance.
    """
    network.train()
    if xyz.shape[0] == 1:
        for layer in _global_norms(network):
            layer.eval()
    network.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(network(xyz), labels)
    loss.backward()
    return loss.detach()


def _global_norms(network: nn.Module) -> list[nn.Module]:
    """Batch-norms of the head, and of PointConv's last stage."""
    places = ("head.", "sa3.bn_linear")
    return [
        module
        for name, module in network.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and any(place in f"{name}." for place in places)
    ]
