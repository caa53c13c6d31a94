"""`export`: a network as one file that runs without this package, written only if the file proves to be right."""

from __future__ import annotations

import copy
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reqnn.data.files import atomic_file
from reqnn.deploy.onnx_ops import simplify, translations
from reqnn.deploy.proof import Run, Sizes, prove
from reqnn.errors import ExportError, InputError
from reqnn.extras import need
from reqnn.provenance import provenance
from reqnn.revision.encoding import normalise_inputs
from reqnn.revision.inputs import Inputs, as_arguments, convert, is_numbers
from reqnn.revision.module import RevisedModel
from reqnn.tensor.nested import leaves

METADATA = "reqnn.json"
"""The name under which a file holds its metadata: an extra file of a pt2 archive, an entry of `metadata_props` in ONNX."""


def export(
    net: nn.Module,
    points: Any,
    path: str | Path,
    *,
    dynamic: Sequence[str] = ("batch", "points"),
    normalise: bool = True,
    classes: Sequence[str] | None = None,
    step: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Write a revised network as a file for `torch` alone (pt2) or ONNX Runtime alone, neighbour search and sampling inside.

    The file is loaded again and compared with the network on 64 clouds, and on rotated, reordered, moved and scaled
    copies of them; one that fails is not kept. The measurements are in its metadata, and beside it in `<path>.json`.

    Args:
        net: the revised network; it is copied, and exported in eval mode.
        points: an example of its inputs, at least two clouds, or a tuple of inputs.
        path: the file to write; it ends in .pt2 or .onnx.
        dynamic: which sizes may vary, "batch" and "points"; the others are those of the example.
        normalise: the file takes clouds as they are, and centres them and scales them to the unit sphere itself.
        classes: names of the classes: the output is then their probabilities. Default: those of a network from `reqnn.load`;
            without, the file gives what the network gives.
        step: called with what is done next, in words: an export takes about a minute.

    Returns:
        The metadata: classes, preprocessing, inputs, outputs, the proof.
    """
    path, args = Path(path), as_arguments(points)
    _check(net, args, path, dynamic)
    assert isinstance(net, RevisedModel)
    own = getattr(net, "classes", None)
    classes = list(own) if classes is None and isinstance(own, (tuple, list)) else classes
    format = path.suffix[1:]
    network = Deployed(copy.deepcopy(net).cpu().eval(), normalise, classes is not None)
    exact = copy.deepcopy(network).double()
    dtype = next((p.dtype for p in net.parameters() if p.is_floating_point()), torch.float32)
    args = convert(args, torch.device("cpu"), dtype)
    axes = _axes(net.inputs, args)
    varying = [{axis: name for axis, name in own.items() if name in dynamic} for own in axes]
    with torch.no_grad(), _quiet():
        outputs = leaves(network(*args))
        shapes = [tuple(x.shape) for x in outputs]
        if classes is not None and (len(shapes) != 1 or shapes[0][-1:] != (len(classes),)):
            given = f"{len(classes)} classes are named; the network gives {shapes}"
            raise InputError(f"{given}, not one tensor of that many logits")
        with atomic_file(path) as partial:
            step("tracing the network")
            program = _program(network, args, varying)
            step("writing the file")
            FORMATS[format].write(program, args, partial)
            sizes = Sizes(axes, None if "batch" in dynamic else len(args[0]), "points" in dynamic)
            runs = {"network": _run(network), "exact": _run(exact), "file": FORMATS[format].load(partial)}
            if dtype != torch.float64:
                step("writing the same in float64, for the proof")
                runs |= _in_double(exact, args, varying, format, partial)
            proof = prove(runs, net.inputs, args, sizes, normalise, step)
            if proof.failures:
                raise ExportError(f"{path} is not written: {'; '.join(proof.failures)}", proof)
            about = {
                "format": format,
                "classes": None if classes is None else list(classes),
                "preprocessing": "inside: centred on the mean, scaled to the unit sphere" if normalise else "none",
                "inputs": [[own.get(i, n) for i, n in enumerate(x.shape)] for x, own in zip(args, varying, strict=True)],
                "dtype": str(outputs[0].dtype).removeprefix("torch."),
                "outputs": "probabilities" if classes is not None else "as the network gives them",
                "proof": proof.to_dict(),
                "versions": provenance()["versions"],
            }
            FORMATS[format].add(partial, json.dumps(about))
    with atomic_file(path.with_name(f"{path.name}.json")) as partial:
        partial.write_text(json.dumps({**about, "bytes": path.stat().st_size}, indent=2) + "\n", encoding="utf-8")
    return about


class Deployed(nn.Module):
    """From clouds as a scanner gives them to probabilities, or to what the network gives."""

    def __init__(self, network: RevisedModel, normalise: bool, probabilities: bool) -> None:
        super().__init__()
        self.network, self.normalise, self.probabilities = network, normalise, probabilities

    def forward(self, *points: Tensor) -> Any:
        """Centre and scale in float64, as `net.predict` does; the network; softmax."""
        if self.normalise:
            near = normalise_inputs(self.network.inputs, convert(points, None, torch.float64)).args
            points = tuple(x.to(like.dtype) for x, like in zip(near, points, strict=True))
        out = self.network(*points)
        return out.softmax(-1) if self.probabilities else out


def _check(net: nn.Module, args: tuple[Any, ...], path: Path, dynamic: Sequence[str]) -> None:
    if not isinstance(net, RevisedModel):
        raise InputError(
            f"net is a {type(net).__name__}; only revised networks can prove that rotations change nothing: reqnn.revise it "
            "first (rules='frames' keeps its weights)"
        )
    if path.suffix[1:] not in FORMATS:
        raise InputError(f"{path}: the name of the file must end in .pt2 or .onnx")
    for package in FORMATS[path.suffix[1:]].packages:  # before a minute of work, not after
        need(package)
    if set(dynamic) - {"batch", "points"}:
        raise InputError(f"dynamic is {dynamic!r}; it holds 'batch', 'points', both or none")
    if not all(isinstance(x, Tensor) for x in args):
        raise InputError("points must be a tensor, or a tuple of tensors: the inputs of the network")
    rank = args[0].dim()
    if "batch" in dynamic and (rank < 3 or len(args[0]) < 2):
        raise InputError(f"points have shape {tuple(args[0].shape)}; give two clouds or more, or dynamic=('points',)")


def _axes(inputs: Inputs, args: tuple[Tensor, ...]) -> list[dict[int, str]]:
    """For each input, which axes count clouds and points."""
    first, vectors_axis = inputs.first
    batched = args[first].dim() > 2
    rest = [axis for axis in range(int(batched), args[first].dim()) if axis != vectors_axis]
    count = max((args[first].shape[axis] for axis in rest), default=0)
    found = []
    for i, x in enumerate(args):
        vectors = inputs.axes[i] if i < len(inputs.axes) else None
        own = {0: "batch"} if batched and x.dim() and x.shape[0] == len(args[first]) else {}
        along = [axis for axis in range(len(own), x.dim()) if axis != vectors and x.shape[axis] == count]
        found.append(own | dict.fromkeys(along[:1], "points"))
    return found


def _program(network: Deployed, args: tuple[Tensor, ...], varying: list[dict[int, str]]) -> Any:
    shapes = tuple(dict.fromkeys(own, torch.export.Dim.DYNAMIC) for own in varying)
    try:
        return torch.export.export(network, args, dynamic_shapes=(shapes,))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        way = "; give dynamic=() if the code of the network writes out sizes" if any(varying) else ""
        raise ExportError(f"torch.export does not take the network ({reason}){way}") from error


def _in_double(
    exact: Deployed, args: tuple[Tensor, ...], varying: list[dict[int, str]], format: str, path: Path
) -> dict[str, Run]:
    """The same graph in float64; nothing if ONNX Runtime lacks one of its operators in float64."""
    args, beside = convert(args, None, torch.float64), path.with_name(f"{path.stem}.double{path.suffix}")
    program = _program(exact, args, varying)
    if format == "pt2":
        return {"twin": _run(program.module())}
    try:
        _write_onnx(program, args, beside)
        return {"twin": _load_onnx(beside)}
    except ExportError as error:
        logging.getLogger(__name__).info("not compared in float64: %s", error)
        return {}
    finally:
        beside.unlink(missing_ok=True)


def _write_onnx(program: Any, args: tuple[Tensor, ...], path: Path) -> None:
    names = ["points"] if len(args) == 1 else [f"input{i}" for i in range(len(args))]
    options: dict[str, Any] = {"input_names": names, "custom_translation_table": translations()}
    try:
        written = torch.onnx.export(program, args, dynamo=True, optimize=False, verbose=False, **options)
        assert written is not None
        simplify(written.model)
        written.save(path, external_data=False)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "Error'" in line] or [type(error).__name__]
        raise ExportError(f"the network cannot be written in ONNX ({lines[0].strip()}); as .pt2 it may be exported") from error


def _load_onnx(path: Path) -> Run:
    runtime = need("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExportError(f"ONNX Runtime cannot run the network ({error}); as .pt2 it may be exported") from error
    names = [item.name for item in session.get_inputs()]

    def run(args: tuple[Any, ...]) -> list[Tensor]:
        found = session.run(None, {name: x.numpy() for name, x in zip(names, args, strict=True)})
        return [x for x in map(torch.from_numpy, found) if x.is_floating_point()]

    return run


def _run(module: Callable[..., Any]) -> Run:
    return lambda args: [x for x in leaves(module(*args)) if is_numbers(x)]


def _add_to_pt2(path: Path, text: str) -> None:
    """As an extra file of the archive, where `torch.export.load(…, extra_files=…)` finds it; the rest stays byte for byte."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{folder}/extra/{METADATA}", text)


def _add_to_onnx(path: Path, text: str) -> None:
    """At the end of the file: protocol buffers one after another are read as one."""
    onnx = need("onnx")
    more = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key=METADATA, value=text)])
    with path.open("ab") as file:
        file.write(more.SerializeToString())


class Format(NamedTuple):
    """How a file is written, loaded as a function, and given its metadata; the packages that this takes."""

    write: Callable[[Any, tuple[Tensor, ...], Path], None]
    load: Callable[[Path], Run]
    add: Callable[[Path, str], None]
    packages: tuple[str, ...] = ()


FORMATS = {
    "pt2": Format(
        lambda program, args, path: torch.export.save(program, path),
        lambda path: _run(torch.export.load(path).module()),
        _add_to_pt2,
    ),
    "onnx": Format(_write_onnx, _load_onnx, _add_to_onnx, ("onnx", "onnxscript", "onnxruntime")),
}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's notes to its own developers."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
