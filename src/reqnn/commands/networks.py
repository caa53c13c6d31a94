"""`reqnn audit`, `reqnn revise` and `reqnn models`: commands on one network, and the list of networks known by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import NOT_OK, OK, Command, busy, console, optional, write_json
from reqnn.errors import InputError
from reqnn.importing import build
from reqnn.train.config import JsonObject

if TYPE_CHECKING:
    from torch import Tensor, nn

    from reqnn.auditing import AuditReport
    from reqnn.revision.module import RevisedModel


@dataclass(kw_only=True)
class NetworkCommand(Command):
    """A command on one network: a user's own class, or one of `reqnn models`."""

    target: Annotated[tyro.conf.Positional[str | None], optional("MODULE:CLASS")] = None
    """MODULE:CLASS or path/to/file.py:CLASS, which is imported, and so runs: name only code that you trust. The current
    directory is searched first."""
    model: Annotated[str | None, optional("NAME")] = None
    """A network by its name in `reqnn models`, instead of a class."""
    kwargs: Annotated[JsonObject, tyro.conf.arg(aliases=["--options"])] = field(default_factory=dict)
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
    rules: str = "paper"
    """The rule set of the revision: paper, full, vector-neurons, frames, or your own: my_rules.py:mine."""
    init: Literal["fresh", "copy"] = "fresh"
    """Weights of the revised network: new, or copied from the original if shapes allow."""
    rotations: int = 64
    """Audit: random rotations, in addition to the 24 of the cube."""
    permutations: int = 4
    """Audit: passes with random orders of the points."""
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

        from reqnn.models.registry import build_model

        options: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in self.kwargs.items()}
        torch.manual_seed(self.seed)
        if self.target is not None and self.model is None:
            model = build(self.target, options)
        elif self.model is not None and self.target is None:
            model = build_model(self.model, equivariant, **options)
        else:
            raise InputError("name one network: MODULE:CLASS, or --model with a name from `reqnn models`")
        least = int(getattr(model, "min_points", 1)) + 1 if self.model else 0
        shapes = [parse_shape(text) for text in self.points] or [(4, max(128, least), 3)]
        categories: Any = getattr(model, "categories", None)
        if categories and self.model and not self.points:
            shapes.append((4, categories))
        return model, example_inputs(shapes, self.vector_axis, self.scalars, self.seed)

    def revised(self, model: nn.Module, points: Any) -> RevisedModel:
        """The network, revised by the given options, or those registered with the model."""
        from reqnn.revision import revise
        from reqnn.zoo import recipe_for

        rules: Any = self.rules
        given: dict[str, Any] = {"to_real": self.to_real or None, "coordinates": self.coordinates, "remove": self.remove}
        if self.model is not None:
            given = {**recipe_for(self.model, rules), **{key: value for key, value in given.items() if value}}
        given |= {"scalars": self.scalars, "vector_axis": self.vector_axis, "init": self.init, "strict": self.strict}
        return revise(model, points, rules=rules, **given)

    def audited(self, net: nn.Module, points: Any) -> AuditReport:
        """Audit a network with these options."""
        import torch

        from reqnn.auditing import audit

        names = ("rotations", "seed", "vector_axis", "scalars", "permutations", "tolerance")
        return audit(net, points, dtype=getattr(torch, self.dtype), **{name: getattr(self, name) for name in names})

    def show(self, points: Any, record: dict[str, Any], text: str) -> None:
        """Write the record with the settings as JSON, if asked, and print the text."""
        if self.json is not None:
            from reqnn.provenance import provenance

            inputs = points if isinstance(points, tuple) else (points,)
            settings = {
                "network": self.target or self.model,
                "options": self.kwargs,
                "points": [list(x.shape) for x in inputs],
                "seed": self.seed,
            }
            write_json({**settings, **record, "provenance": provenance()}, self.json)
        if self.json != "-":
            print(text)


@dataclass(kw_only=True)
class Audit(NetworkCommand):
    """Measure rotation equivariance and permutation invariance of a network, layer by layer.

    Any network can be audited as it is; with --equivariant it is revised first.
    The exit code is 0 if it passes, 1 if it does not, 2 for bad input.

    Examples:
        reqnn audit my_models:PointNet --points 2,3,128
        reqnn audit my_models.py:DGCNN --kwargs '{"k": 10}' --equivariant --to-real conv6
        reqnn audit --model dgcnn --equivariant --options '{"width": 0.25}' --rotations 8 --json audit.json
    """

    equivariant: bool = False
    """Revise the network first."""

    def run(self) -> int:
        """Build, revise if asked, audit, print."""
        if not self.equivariant and (self.to_real or self.coordinates or self.remove or self.rules != "paper"):
            raise InputError("--to-real, --coordinates, --remove and --rules say how to revise: add --equivariant")
        model, points = self.original(self.equivariant)
        with busy("auditing"):
            report = self.audited(self.revised(model, points) if self.equivariant else model, points)
        self.show(points, {"equivariant": self.equivariant, **report.to_dict()}, str(report))
        return OK if report.ok else NOT_OK


@dataclass(kw_only=True)
class Revise(NetworkCommand):
    """Revise a network and show which rule each operation uses; in Python: `reqnn.revise(model, points)`.

    The exit code is 0 if every operation has a rule, 2 if one has none: the message names the line and what to do.
    With --audit it is 1 if the revised network does not pass.

    Examples:
        reqnn revise my_models:PointNet --points 2,3,128 --remove feat.stn
        reqnn revise my_models.py:DGCNN --kwargs '{"k": 10}' --audit
        reqnn revise --model pointconv --json revision.json
    """

    audit: bool = False
    """Also audit the revised network."""

    def run(self) -> int:
        """Build, revise, print; audit if asked."""
        model, points = self.original(equivariant=True)
        with busy("revising"):
            net = self.revised(model, points)
            audit = self.audited(net, points) if self.audit else None
        record = {**net.report.to_dict(), "operations": net.report.operations, "audit": audit and audit.to_dict()}
        self.show(points, record, f"{net.report}\n\n{audit}" if audit else str(net.report))
        return OK if audit is None or audit.ok else NOT_OK


@dataclass(kw_only=True)
class Models(Command):
    """List the networks that `--model` and `reqnn.create_model` take, with their options and numbers of parameters.

    Examples:
        reqnn models
    """

    def run(self) -> int:
        """Print a table."""
        import torch
        from rich.table import Table

        from reqnn.models.registry import list_models, model_entry
        from reqnn.revision.report import count_parameters
        from reqnn.zoo import create_model

        table = Table("name", "what it is", "parameters", "options")
        for name in list_models():
            entry = model_entry(name)
            with torch.device("meta"):
                parameters = count_parameters(create_model(name))
            summary = (entry.build.__doc__ or "").strip().splitlines()[0]
            fixed = "".join(f" ({key}={value})" for key, value in entry.fixed.items())
            table.add_row(name, summary + fixed, f"{parameters:,}", ", ".join(entry.options))
        console().print(table)
        return OK


def parse_shape(text: str) -> tuple[int, ...]:
    """A shape such as 2,128,3."""
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").strip("()[]").split(",") if part.strip())
    except ValueError:
        shape = ()
    if len(shape) < 2 or min(shape) < 1:
        raise InputError(f"--points {text}: a shape is needed, such as 2,128,3 for two clouds of 128 points")
    return shape


def example_inputs(
    shapes: Sequence[tuple[int, ...]], vector_axis: int | None = None, scalars: int = 0, seed: int = 0
) -> Tensor | tuple[Tensor, ...]:
    """Clouds on surfaces in the given shapes: xyz, then normals, then random vectors, then scalars between 0 and 1.

    An input without a vector axis gets random numbers.
    """
    import torch

    from reqnn.data.surfaces import surfaces
    from reqnn.revision.inputs import read_inputs

    empty = tuple(torch.zeros(shape) for shape in shapes)
    inputs, _ = read_inputs(empty if len(empty) > 1 else empty[0], vector_axis, scalars)
    generator = torch.Generator().manual_seed(seed)
    filled: list[Tensor] = []
    for shape, axis in zip(shapes, inputs.axes, strict=True):
        if axis is None:
            filled.append(torch.rand(shape, generator=generator))
            continue
        batch, inner = (shape[0], shape[1:]) if len(shape) > 2 else (1, shape)
        rest = [size for i, size in enumerate(inner, start=len(shape) - len(inner)) if i != axis]
        count, vectors = torch.Size(rest).numel(), shape[axis] - scalars
        more = torch.randn(batch, count, max(vectors - 6, 0), generator=generator)
        whole = torch.cat([*surfaces(batch, count, seed, torch.float32), more], dim=-1)[..., :vectors]
        whole = torch.cat([whole, torch.rand(batch, count, scalars, generator=generator)], dim=-1).unflatten(1, rest)
        filled.append((whole if len(shape) > 2 else whole[0]).movedim(-1, axis).contiguous())
        scalars = 0  # the first cloud has them
    return tuple(filled) if len(filled) > 1 else filled[0]
