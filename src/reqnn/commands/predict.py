"""`reqnn predict`: classify meshes and clouds in any orientation."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from reqnn.commands.base import NOT_OK, OK, Command, busy, optional, write_json
from reqnn.commands.on_ray import OnRay
from reqnn.errors import InputError

DEFAULT = "dgcnn.full.modelnet40"


@dataclass(kw_only=True)
class Predict(OnRay, Command):
    """Classify meshes and clouds in any orientation: the most probable classes of each file.

    Formats: OFF, OBJ, PLY, STL, GLB, XYZ, TXT, PTS, CSV, NPY and NPZ; folders are searched recursively. The sampling of a file
    does not depend on its orientation. A file that cannot be read is reported, the others are classified; the exit code is 1.

    Examples:
        reqnn predict chair.ply
        reqnn predict scans/ --top 3 --json answers.json
        reqnn predict scans/ --rotations 10
        reqnn predict s3://bucket/scans --engine ray --address auto --out s3://bucket/answers
        reqnn predict --list
        reqnn predict digit.xyz --weights runs/digits
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], optional("[FILE ...]")] = ()
    """Files, and folders of files."""
    weights: Annotated[str, tyro.conf.arg(metavar="NAME|RUN")] = DEFAULT
    """Name of pretrained weights, a run's folder, or a weights file."""
    top: int = 5
    """Number of classes to show."""
    points: Annotated[int | None, optional("INT")] = None
    """Points to sample per file. Default: as in training."""
    rotations: Annotated[int, tyro.conf.arg(aliases=["--turned"])] = 0
    """Rotate each file this many times, arbitrarily, and report whether its answer stays the same; it should."""
    seed: int = 0
    """Seed of the choice of points and of the rotations."""
    json: Annotated[str | None, optional("FILE")] = None
    """Write the answers as JSON; "-" for stdout, instead of text."""
    out: Annotated[str | None, optional("FOLDER")] = None
    """With --engine ray: the folder of the results."""
    list: bool = False
    """List the pretrained weights and their accuracy instead."""

    def run(self) -> int:
        """Load, classify, print."""
        from rich.console import Console
        from rich.progress import track

        from reqnn.pretrained import classify, find_files, load
        from reqnn.provenance import provenance

        if self.list:
            return _list_weights()
        if not self.files:
            raise InputError("name at least one file or folder: reqnn predict chair.ply")
        if self.engine == "ray":
            return self.run_on_ray("predict", self.files, self.out, self.weights, self.points, self.seed, self.top)
        files, stderr = find_files(self.files), Console(stderr=True)
        with busy(f"loading {self.weights}"):
            network = load(self.weights)
        found = classify(network, files, self.points, self.top, self.seed, self.rotations)
        silent = len(files) < 2 or not stderr.is_terminal
        answers = list(track(found, "classifying", len(files), console=stderr, transient=True, disable=silent))
        for answer in answers:
            if "error" in answer:
                print(f"error: {answer['error']}", file=sys.stderr)
        if self.json is not None:
            settings = {"weights": self.weights, "seed": self.seed, "rotations": self.rotations}
            write_json({**settings, "versions": provenance()["versions"], "files": answers}, self.json)
        if self.json != "-":
            _print([answer for answer in answers if "top" in answer], self.rotations)
        return NOT_OK if any("error" in answer for answer in answers) else OK


def _list_weights() -> int:
    from reqnn.pretrained.loading import read_card
    from reqnn.train.run import list_weights, weights_file

    for name in list_weights():
        card = read_card(weights_file(name))
        if card is None:
            print(name)
            continue
        kind = f"{card['network']} by the rules {card['config']['rules']}" if card["equivariant"] else card["network"]
        reached = f"{100 * card['test']['rotated']:.2f} % of the test shapes in any orientation"
        print(f"{name}: {kind}, {len(card['classes'])} classes of {card['data']}, {reached}")
    return OK


def _print(answers: list[dict[str, Any]], rotations: int) -> None:
    kept, change = 0, 0.0
    for answer in answers:
        line = ", ".join(f"{one['class']} {100 * one['probability']:.1f} %" for one in answer["top"])
        if rotations:
            same = answer["rotated"]["same"]
            kept += same == rotations
            change = max(change, answer["rotated"]["largest_change"])
            line += f"; the same in {'all' if same == rotations else f'{same} of'} {rotations} orientations"
        print(f"{answer['file']}: {line}")
    if rotations:
        keep = f"{kept} of {len(answers)} files keep their answer in every orientation"
        print(f"{keep}; largest change of a probability {change:.1e}")
