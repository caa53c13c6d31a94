"""`reqnn predict --category`: colour the parts of objects, and write them as labelled PLY files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import NOT_OK, OK, busy, make_folder, write_json
from reqnn.errors import InputError, check_choice

if TYPE_CHECKING:
    from reqnn.commands.predict import Predict


def predict_parts(chosen: Predict, files: list[Path]) -> int:
    """Segment each file, write FOLDER/NAME.parts.ply, print the shares of its parts."""
    from reqnn.pretrained.parts import categories, segment_file, write_labelled_ply
    from reqnn.train.run import load_run

    assert chosen.category is not None
    with busy(f"loading {chosen.weights}"):
        run = load_run(chosen.weights)
    check_choice(chosen.category, categories(run), "--category")
    folder = make_folder(chosen.out or ".")
    answers: list[dict[str, Any]] = []
    for file in files:
        try:
            found = segment_file(run, file, chosen.category, chosen.points, chosen.seed)
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            answers.append({"file": str(file), "error": str(error)})
            continue
        written = write_labelled_ply(folder / f"{file.stem}.parts.ply", **found)
        counts = found["parts"].bincount(minlength=len(run.classes)).tolist()
        shares = {name: count / len(found["parts"]) for name, count in zip(run.classes, counts, strict=True) if count}
        answers.append({"file": str(file), "points": len(found["parts"]), "parts": shares, "written": str(written)})
        if chosen.json != "-":
            print(f"{file}: {', '.join(f'{name} {share:.0%}' for name, share in shares.items())}; written to {written}")
    if chosen.json is not None:
        write_json({"weights": chosen.weights, "category": chosen.category, "seed": chosen.seed, "files": answers}, chosen.json)
    return NOT_OK if any("error" in answer for answer in answers) else OK
