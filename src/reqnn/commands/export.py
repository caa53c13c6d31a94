"""`reqnn export`: a trained network as a file that runs without this package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from reqnn.commands.base import NOT_OK, OK, Command, busy, console, optional
from reqnn.errors import ExportError, InputError


@dataclass(kw_only=True)
class Export(Command):
    """Write a trained network as one file, from clouds as a scanner gives them to probabilities; its proof is inside.

    Centring, scaling, sampling and neighbour search are in the graph. pt2 runs with torch alone, ONNX with onnxruntime alone.
    The file is loaded again and compared with the network on 64 clouds and on copies of them, rotated, reordered, moved and
    scaled; a file that fails is not kept, and the exit code is 1. FILE.json holds the measurements, and so do its metadata.

    Examples:
        reqnn export dgcnn.full.modelnet40 --out net.onnx
        reqnn export runs/mine --out net.pt2 --points 1024 --batch 1
    """

    network: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME|RUN")]
    """Name of pretrained weights, a run's folder, or a weights file."""

    out: Annotated[str, tyro.conf.arg(metavar="FILE")]
    """The file to write, .pt2 or .onnx."""

    format: Annotated[Literal["pt2", "onnx"] | None, optional("pt2|onnx")] = None
    """The ending of the file, which may then be left out of --out."""

    points: Annotated[str, tyro.conf.arg(metavar="dynamic|INT")] = "dynamic"
    """Points in a cloud: any number, or this one."""

    batch: Annotated[str, tyro.conf.arg(metavar="dynamic|INT")] = "dynamic"
    """Clouds in a pass: any number, or this one."""

    def run(self) -> int:
        """Load, export, show the proof."""
        from reqnn.data import surfaces
        from reqnn.deploy import export
        from reqnn.pretrained import load

        out = Path(self.out if self.format is None or self.out.endswith(f".{self.format}") else f"{self.out}.{self.format}")
        sizes = {"points": _size(self.points, "--points"), "batch": _size(self.batch, "--batch")}
        net = load(self.network)
        example = surfaces(sizes["batch"] or 2, sizes["points"] or net.card["points"])[0]
        try:
            with busy(f"exporting {self.network}") as step:
                varying = [name for name, n in sizes.items() if n is None]
                about = export(net, example, out, dynamic=varying, step=step)
        except ExportError as error:
            console().print(f"{error}", highlight=False, markup=False, soft_wrap=True)
            return NOT_OK
        proof = about["proof"]
        exact = proof["exact"]["file"]
        console().print(
            f"{out}: {out.stat().st_size / 1e6:.1f} MB; {proof['clouds']} clouds, {proof['clouds'] * proof['copies']} copies; "
            f"relative to the spread of the outputs it differs from the network by at most {proof['parity']:.1e} "
            f"(float64: {proof['rounding']:.1e}); {proof['changed']} copies change by rounding alone, the others by "
            f"{proof['invariance']:.1e}; in float64 {'not measured' if exact is None else f'{exact:.1e}'}; "
            f"{proof['milliseconds_per_cloud']['file']:.1f} ms per cloud",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return OK


def _size(text: str, option: str) -> int | None:
    if text == "dynamic":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{option} {text}: give dynamic, or a number from 1")
    return int(text)
