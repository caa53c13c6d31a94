"""`reqnn predict --category`: colour the parts of objects, and write them as labelled PLY files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reqnn.commands.base import NOT_OK, OK, busy, make_folder, write_json
from reqnn.errors import InputError, check_choice


def predict_parts(
    files: list[Path], weights: str, category: str, out: str | None, points: int | None, seed: int, json: str | None
) -> int:
    """Segment each file, write OUT/NAME.parts.ply, print the shares of its parts."""
    from reqnn.pretrained.parts import categories, segment_file, write_labelled_ply
    from reqnn.train.run import load_run

    with busy(f"loading {weights}"):
        run = load_run(weights)
    check_choice(category, categories(run), "--category")
    folder = make_folder(out or ".")
    answers: list[dict[str, Any]] = []
    for file in files:
        try:
            found = segment_file(run, file, category, points, seed)
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            answers.append({"file": str(file), "error": str(error)})
            continue
        written = write_labelled_ply(folder / f"{file.stem}.parts.ply", **found)
        counts = found["parts"].bincount(minlength=len(run.classes)).tolist()
        shares = {name: count / len(found["parts"]) for name, count in zip(run.classes, counts, strict=True) if count}
        answers.append({"file": str(file), "points": len(found["parts"]), "parts": shares, "written": str(written)})
        if json != "-":
            print(f"{file}: {', '.join(f'{name} {share:.0%}' for name, share in shares.items())}; written to {written}")
    if json is not None:
        write_json({"weights": weights, "category": category, "seed": seed, "files": answers}, json)
    return NOT_OK if any("error" in answer for answer in answers) else OK
