"""`reqnn predict`: classify meshes and clouds in any orientation."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from reqnn.commands.answers import LINES, AnswerFile
from reqnn.commands.base import NOT_OK, OK, Command, busy, optional, progress, write_json
from reqnn.commands.on_ray import OnRay
from reqnn.errors import InputError, printable

DEFAULT = "dgcnn.full.modelnet40"


@dataclass(kw_only=True)
class Predict(OnRay, Command):
    """Classify meshes and clouds in any orientation: the most probable classes of each file.

    Formats: OFF, OBJ, PLY, STL, GLB, XYZ, TXT, PTS, CSV, NPY, NPZ, PCD, LAS and LAZ; folders are searched recursively. The
    sampling of a file does not depend on its orientation. A file that cannot be read is reported, the others are classified;
    the exit code is then 1.

    Examples:
        reqnn predict chair.ply
        reqnn predict scans/ --top 3 --json answers.json
        reqnn predict scans/ --out answers.csv --resume
        reqnn predict scans/ --rotations 10
        reqnn predict s3://bucket/scans --engine ray --address auto --out s3://bucket/answers
        reqnn predict --list
        reqnn predict digit.xyz --weights runs/digits
        reqnn predict chair.ply --weights runs/parts --category Chair --out coloured
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
    drop_nan: bool = False
    """Leave out points with NaN or infinite coordinates, as organised scans have."""
    robust: bool = False
    """Leave out points far from all others: a stray one would shrink the object into the centre."""
    precision: Literal["float64", "float32"] = "float64"
    """In float64 near ties are not decided by rounding, which changes with the orientation; float32 is faster."""
    seed: int = 0
    """Seed of the choice of points and of the rotations."""
    json: Annotated[str | None, optional("FILE")] = None
    """Write the answers: as lines while the run lasts (.jsonl, .csv), or as one JSON document at its end; "-" for stdout,
    instead of text."""
    out: Annotated[str | None, optional("PATH")] = None
    """The same as --json; with --engine ray or --category the folder of the results."""
    resume: bool = False
    """Continue an interrupted run with the same .jsonl or .csv file; files that failed are tried again."""
    category: Annotated[str | None, optional("NAME")] = None
    """With weights for part segmentation: the category of the objects, such as Chair. Writes clouds coloured by part (PLY)."""
    list: bool = False
    """List the pretrained weights and their accuracy instead."""

    def run(self) -> int:
        """Load, classify, print."""
        import torch

        from reqnn.pretrained import classify, load
        from reqnn.pretrained.classify import find_files, other_files
        from reqnn.provenance import provenance

        if self.list:
            return _list_weights()
        if not self.files:
            raise InputError("name at least one file or folder: reqnn predict chair.ply")
        if self.engine == "ray":
            return self.run_on_ray("predict", self.files, self.out, self.weights, self.points, self.seed, self.top)
        if self.category is not None:
            from reqnn.commands.parts import predict_parts

            files = find_files(self.files)
            return predict_parts(files, self.weights, self.category, self.out, self.points, self.seed, self.json)
        target = self.out if self.json is None else self.json
        lines = target is not None and Path(target).suffix in LINES
        if self.resume and not lines:
            raise InputError(f"--resume needs --out FILE with a name that ends in {' or '.join(LINES)}")
        files, others = find_files(self.files), other_files(self.files)
        with busy(f"loading {self.weights}"):
            network = load(self.weights).to(getattr(torch, self.precision))
        settings = {"weights": self.weights, "precision": self.precision, "seed": self.seed, "rotations": self.rotations}
        out = AnswerFile(target or "", settings, self.top, self.rotations, self.resume) if lines else None
        left = files if out is None else [file for file in files if printable(str(file)) not in out.done]
        found = classify(
            network, left, self.points, self.top, self.seed, self.rotations, drop_nan=self.drop_nan, robust=self.robust
        )
        done, failed, kept = 0, 0, []
        with out or nullcontext():
            for answer in chain(others, progress(found, "classifying", len(left))):
                if "error" in answer:
                    failed += 1
                    print(f"error: {answer['error']}", file=sys.stderr)
                elif "top" in answer:
                    done += 1
                    if target != "-":
                        print(_line(answer))
                if out is not None:
                    out.write(answer)
                if self.rotations or (target is not None and out is None):
                    kept.append(answer)
        if target is not None and out is None:
            write_json({**settings, "versions": provenance()["versions"], "files": kept}, target)
        if self.rotations and target != "-":
            rotated = [answer["rotated"] for answer in kept if "rotated" in answer]
            same = f"{sum(one['same'] == one['copies'] for one in rotated)} of {len(rotated)} files"
            change = max((one["largest_change"] for one in rotated), default=0.0)
            print(f"{same} keep their answer in every orientation; largest change of a probability {change:.1e}")
        before, skipped = len(files) - len(left), Counter(one["skipped"] for one in others if "skipped" in one)
        parts = [f"{done} classified"] + [f"{before} classified before"] * bool(before) + [f"{failed} failed"] * bool(failed)
        parts += [f"{count} skipped ({reason})" for reason, count in skipped.most_common()]
        if len(parts) > 1 or done > 1:  # more to say than that one was classified
            print(", ".join(parts), file=sys.stderr)
        return NOT_OK if failed else OK


def _line(answer: dict[str, Any]) -> str:
    line = ", ".join(f"{one['class']} {100 * one['probability']:.1f} %" for one in answer["top"])
    if "rotated" in answer:
        same, copies = answer["rotated"]["same"], answer["rotated"]["copies"]
        line += f"; the same in {'all' if same == copies else f'{same} of'} {copies} orientations"
    return f"{answer['file']}: {line}"


def _list_weights() -> int:
    from reqnn.data.files import reading
    from reqnn.pretrained.loading import read_card
    from reqnn.train.run import list_weights, weights_file

    for name in list_weights():
        card = read_card(weights_file(name))
        if card is None:
            print(name)
            continue
        with reading(name, "a model card"):
            kind = f"{card['network']} by the rules {card['config']['rules']}" if card["equivariant"] else card["network"]
            reached = f"{100 * card['test']['rotated']:.2f} % of the test shapes in any orientation"
            print(f"{name}: {kind}, {len(card['classes'])} classes of {card['data']}, {reached}")
    return OK
