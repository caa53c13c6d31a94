"""Answers of `reqnn predict` as a JSONL or CSV file that grows line by line and can be resumed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reqnn.commands.base import writing
from reqnn.errors import InputError

LINES = (".jsonl", ".csv")
"""File names that end so are written line by line."""


class AnswerFile:
    """Write answers as lines: to FILE.part, which is renamed to FILE at the end, so that a complete file is never lost.

    `settings` go into every line. With `resume` the answers of FILE.part, or of FILE, are kept: `done` holds their files;
    those that failed are tried again. Answers by other settings are refused.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any], top: int, rotations: int, resume: bool) -> None:
        from reqnn.data.files import atomic_file

        self.path, self.settings = Path(path), settings
        self.part = self.path.with_name(f"{self.path.name}.part")
        ranks = [f"{name}_{i}" for i in range(1, top + 1) for name in ("class", "probability")]
        rotated = ["copies", "same", "largest_change"] if rotations else []
        self.columns = ["file", *settings, "points", *ranks, *rotated, "error", "skipped"]
        kept = list(self._kept()) if resume else []
        self.done = {row["file"] for row in kept}
        with writing(f"--json {path}"):
            with atomic_file(self.part) as copy:  # a kill while the answers of before are copied loses none
                self._open(copy, "w")
                if self._csv is not None:
                    self._csv.writeheader()
                for row in kept:
                    self._line(row)
                self._file.close()
            self._open(self.part, "a")

    def _open(self, path: Path, mode: str) -> None:
        self._file = path.open(mode, encoding="utf-8", newline="")
        self._csv = csv.DictWriter(self._file, self.columns) if self.path.suffix == ".csv" else None

    def write(self, answer: dict[str, Any]) -> None:
        """Add an answer, a failure or a skipped file."""
        row = {"file": answer["file"], **self.settings, **answer}
        if self._csv is not None:
            ranked = enumerate(row.pop("top", []), start=1)
            ranks = {f"{name}_{i}": one[name] for i, one in ranked for name in ("class", "probability")}
            row |= ranks | row.pop("rotated", {})
        self._line(row)

    def _line(self, row: dict[str, Any]) -> None:
        with writing(f"--json {self.path}"):
            if self._csv is not None:
                self._csv.writerow(row)
            else:
                self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(self, error: object, *more: object) -> None:
        with writing(f"--json {self.path}"):
            self._file.close()
            if error is None:  # all files are done
                self.part.replace(self.path)

    def _kept(self) -> Iterator[dict[str, Any]]:
        """The answers of the run before; a last line that was cut off is left out."""
        from reqnn.data.files import reading

        source = next((one for one in (self.part, self.path) if one.exists()), None)
        if source is None:
            return
        with reading(source, "answers to resume"), source.open(encoding="utf-8", newline="") as file:
            lines = [line for line in file if line.endswith("\n")]
            rows = list(csv.DictReader(lines)) if self.path.suffix == ".csv" else [json.loads(line) for line in lines]
            for row in rows:
                if row.get("error") or row.get("skipped"):
                    continue
                found = {name: str(row[name]) for name in self.settings}
                wanted = {name: str(value) for name, value in self.settings.items()}
                if found != wanted or (self.path.suffix == ".csv" and list(row) != self.columns):
                    advice = "name another file, or leave out --resume"
                    raise InputError(f"{source} holds answers with {found} or another --top, not {wanted}; {advice}")
                yield row
