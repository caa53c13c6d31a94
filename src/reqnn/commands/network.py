"""The options of commands on one network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import Command, optional
from reqnn.commands.loading import build, example_inputs, parse_options, parse_shape
from reqnn.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from reqnn.auditing import AuditReport
    from reqnn.revision.module import RevisedModel


@dataclass(kw_only=True)
class NetworkCommand(Command):
    """A command on one network: a user's own class, or one of `reqnn models`."""

    target: Annotated[tyro.conf.Positional[str | None], optional("MODULE:CLASS")] = None
    """MODULE:CLASS or path/to/file.py:CLASS; the current directory is searched first."""

    model: Annotated[str | None, optional("NAME")] = None
    """A network by its name in `reqnn models`, instead of a class."""

    kwargs: Annotated[str, tyro.conf.arg(aliases=["--options"], metavar="JSON")] = "{}"
    """Arguments of the network, as JSON: '{"k": 10}'."""

    points: Annotated[tuple[str, ...], optional("SHAPE [SHAPE ...]")] = ()
    """Shape of the input, such as 2,128,3 or 2,6,1024; one for each input of the network. Default: 4,128,3."""

    to_real: Annotated[tuple[str, ...], optional("NAME [NAME ...]")] = ()
    """Submodules to place Quaternion2Real before. Default: found automatically."""

    coordinates: Annotated[tuple[str, ...], optional("NAME [NAME ...]")] = ()
    """Submodules that take raw coordinates: they get PCA-frame coordinates."""

    remove: Annotated[tuple[str, ...], optional("NAME [NAME ...]")] = ()
    """Submodules to drop, such as spatial transformers."""

    scalars: int = 0
    """Number of trailing channels that are not vectors (colour, intensity)."""

    vector_axis: Annotated[int | None, optional("AXIS")] = None
    """The axis that holds the vectors, if the shape is ambiguous."""

    strict: bool = False
    """Refuse rules that go beyond the paper."""

    rules: Literal["paper", "vector-neurons", "full", "frames"] = "paper"
    """The rule set of the revision."""
    init: Literal["fresh", "copy"] = "fresh"
    """Weights of the revised network: new, or copied from the original if shapes allow."""

    rotations: int = 64
    """Audit: random rotations, in addition to the 24 of the cube."""

    permutations: int = 8
    """Audit: random orders of the points."""

    dtype: Literal["float64", "float32"] = "float64"
    """Audit: dtype."""

    tolerance: Annotated[float | None, optional("ERROR")] = None
    """Audit: the largest error allowed. Default: 1e-9 in float64, 1e-4 in float32."""

    seed: int = 0
    """Seed of weights, clouds, rotations and orders."""

    json: Annotated[str | None, optional("FILE")] = None
    """Also write the report as JSON; "-" for stdout, instead of the table."""

    def original(self, equivariant: bool) -> tuple[nn.Module, Any]:
        """The network before revision, and its example input; a registered model gets the options of its REQNN."""
        import torch

        if (self.target is None) == (self.model is None):
            raise InputError("name one network: MODULE:CLASS, or --model with a name from `reqnn models`")
        options = parse_options(self.kwargs, "--kwargs")
        torch.manual_seed(self.seed)
        if self.target is not None:
            model = build(self.target, options)
            shapes = [parse_shape(text) for text in self.points] or [(4, 128, 3)]
        else:
            assert self.model is not None
            from reqnn.models.registry import build_model

            model = build_model(self.model, equivariant, **options)
            shapes = [parse_shape(text) for text in self.points] or [_default_shape(model)]
        return model, example_inputs(shapes, self.vector_axis, self.scalars, self.seed)

    def revised(self, model: nn.Module, points: Any) -> RevisedModel:
        """The network, revised by the given options, or those registered with the model."""
        from reqnn.revision import revise

        rules: Any = self.rules
        given: dict[str, Any] = {"to_real": self.to_real or None, "coordinates": self.coordinates, "remove": self.remove}
        if self.model is not None:
            from reqnn.models.registry import model_entry
            from reqnn.zoo import rules_for

            rules = rules_for(model, rules)
            given = {key: value for key, value in given.items() if value}
            given = {**(model_entry(self.model).recipe_for(self.rules) if self.rules != "frames" else {}), **given}
        return revise(
            model,
            points,
            scalars=self.scalars,
            vector_axis=self.vector_axis,
            init=self.init,
            rules=rules,
            strict=self.strict,
            **given,
        )

    def audited(self, net: nn.Module, points: Any) -> AuditReport:
        """Audit a network with these options."""
        import torch

        from reqnn.auditing import audit

        return audit(
            net,
            points,
            rotations=self.rotations,
            seed=self.seed,
            dtype=getattr(torch, self.dtype),
            vector_axis=self.vector_axis,
            scalars=self.scalars,
            permutations=self.permutations,
            tolerance=self.tolerance,
        )

    def describe(self, points: Any) -> dict[str, Any]:
        """The settings, for JSON."""
        inputs = points if isinstance(points, tuple) else (points,)
        return {
            "network": self.target or self.model,
            "options": parse_options(self.kwargs, "--kwargs"),
            "points": [list(x.shape) for x in inputs],
            "seed": self.seed,
        }


def _default_shape(model: nn.Module) -> tuple[int, ...]:
    return 4, max(128, int(getattr(model, "min_points", 1)) + 1), 3
