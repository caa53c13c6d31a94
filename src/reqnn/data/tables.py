"""Tables of points in text files: separators, headers, count lines and decimal commas as users have them."""

from __future__ import annotations

import io
import re

import numpy as np

_MOST_COLUMNS = 12  # coordinates, normals, colours, …: an array with more columns holds a point per column
_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?|[+-]?(?:nan|inf)\w*", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"[+-]?(?:\d*,)?\d+(?:e[+-]?\d+)?|nan", re.IGNORECASE)


def parse_table(content: bytes) -> np.ndarray:
    """The numbers of a text file, (N, C): a point per line, separated by commas, semicolons, tabs or blanks.

    Comments begin with # or //. A first line with the number of points, or with names of columns, is recognised; columns
    named x, y and z come first then. Decimal commas are read if another character separates the columns.
    """
    text = content.decode("utf-8-sig").replace('"', "")
    lines = [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
    names: list[str] = []
    words = [word for word in re.split(r"[\s,;]+", lines[0]) if word] if lines else []
    if lines and (lines[0].startswith("//") or 2 * sum(map(bool, map(_NUMBER.fullmatch, words))) < len(words)):
        names = re.split(r"[\s,;]+", lines[0].lstrip("/ ").lower())
        lines = lines[1:]
    lines = [line for line in lines if not line.startswith("//")]
    if len(lines) > 1 and lines[0].isdecimal() and not lines[1].isdecimal():
        if int(lines[0]) != len(lines) - 1:
            raise ValueError(f"its first line says {lines[0]} points, and {len(lines) - 1} lines follow: truncated")
        lines = lines[1:]
    if not lines:
        raise ValueError("no line of numbers is in it")
    lines = _with_points(lines)
    table = np.loadtxt(io.StringIO("\n".join(lines)), dtype=np.float64, ndmin=2)
    if len(names) == table.shape[1] and {"x", "y", "z"} <= set(names):
        first = [names.index(name) for name in "xyz"]
        table = table[:, first + [i for i in range(len(names)) if i not in first]]
    return table


def _with_points(lines: list[str]) -> list[str]:
    """The lines with decimal points, and blanks as separators; `ValueError` if a comma can be either."""
    blanks = [line.replace(",", " ").replace(";", " ") for line in lines]
    if any("." in line for line in lines):
        if any("." in cell and "," in cell for cell in lines[0].split(";")) and ";" in lines[0]:
            raise ValueError(f"'{lines[0][:60]}' has points and commas in one column: write 1234.5;2;3")
        return blanks
    words = [re.split(r"[;\t ]+", line.strip("; \t")) for line in lines]
    if all(len(row) >= 3 and all(_COMMA_NUMBER.fullmatch(word) for word in row) for row in words):
        return [" ".join(row).replace(",", ".") for row in words]
    cells = [cell.strip() for line in lines for cell in line.split(",")]
    after = [cell.strip() for line in lines for cell in line.split(",")[1::2]]  # what follows the comma of 1,5,2,5,3,5
    width, sizes = lines[0].count(",") + 1 if lines else 0, {len(cell) for cell in after}
    alike = len(sizes) == 1 or any(cell[0] == "0" and len(cell) > 1 for cell in after if cell)
    if width >= 6 and width % 2 == 0 and all(cell.lstrip("+-").isdecimal() for cell in cells) and alike:
        either = f"{width} whole numbers, or {width // 2} with decimal commas"
        raise ValueError(f"'{lines[0][:60]}' can be {either}: write points, or separate columns by semicolons")
    return blanks


def points_in_rows(table: np.ndarray) -> np.ndarray:
    """An array (N, C) with a point per row; one that has a point per column, (3, N), is transposed."""
    rows, columns = table.shape
    if 3 <= rows <= _MOST_COLUMNS < columns:
        return table.T
    if rows == 3 < columns:
        raise ValueError(f"its shape {table.shape} can be 3 points in rows or {columns} in columns: store (points, 3)")
    return table
