"""PCD files of the Point Cloud Library: ASCII, binary, and binary compressed by LZF."""

from __future__ import annotations

import io
import re

import numpy as np

NORMALS = ("normal_x", "normal_y", "normal_z")
_KINDS = {"F": "f", "I": "i", "U": "u"}


def parse_pcd(content: bytes) -> tuple[np.ndarray, np.ndarray | None]:
    """Points (N, 3) float64, and normals (N, 3) if the file has them; `ValueError` if it is invalid or truncated."""
    found = re.search(rb"^DATA[ \t]+(\w+)[ \t]*\r?\n", content, re.MULTILINE)
    if found is None:
        raise ValueError("the line DATA is missing")
    head = {}
    for line in content[: found.start()].decode("ascii").splitlines():
        name, *values = line.partition("#")[0].split() or [""]
        head[name] = values
    fields, size, kind, repeats = (head.get(name, []) for name in ("FIELDS", "SIZE", "TYPE", "COUNT"))
    repeats = repeats or ["1"] * len(fields)
    if not fields or not len(fields) == len(size) == len(kind) == len(repeats) or not {"x", "y", "z"} <= set(fields):
        raise ValueError("FIELDS with x, y and z, and as many SIZE, TYPE and COUNT, are needed")
    points = int(head["WIDTH"][0]) * int(head["HEIGHT"][0]) if {"WIDTH", "HEIGHT"} <= head.keys() else int(head["POINTS"][0])
    counts = [int(count) for count in repeats]
    if points < 0 or min(counts) < 1:
        raise ValueError(f"it says {points} points, and fields of {min(counts)} numbers")
    names = [name if fields.index(name) == i else f"{name} {i}" for i, name in enumerate(fields)]  # "_" is padding
    wanted = [*"xyz", *(NORMALS if set(NORMALS) <= set(fields) else ())]
    body, storage = content[found.end() :], found[1].decode()
    if storage == "ascii":
        table = np.loadtxt(io.BytesIO(body), dtype=np.float64, ndmin=2)
        if len(table) != points or table.shape[1] != sum(counts):
            raise ValueError(f"the header says {points} points of {sum(counts)} numbers; there are {table.shape}: truncated")
        starts = np.cumsum([0, *counts])
        numbers = table[:, [starts[names.index(name)] for name in wanted]]
        return numbers[:, :3], numbers[:, 3:] if len(wanted) > 3 else None
    types = [_KINDS[one] + str(int(bytes_)) for one, bytes_ in zip(kind, size, strict=True)]
    dtype = np.dtype([(name, one, (count,)) for name, one, count in zip(names, types, counts, strict=True)])
    needed = points * dtype.itemsize
    if storage == "binary":
        if len(body) < needed:
            raise ValueError(f"the header says {points} points, {needed} bytes; {len(body)} follow: truncated")
        packed = np.frombuffer(body, dtype, points)
        columns = [packed[name][:, 0] for name in wanted]
    elif storage == "binary_compressed":
        packed_size, unpacked = np.frombuffer(body[:8], "<u4").tolist()
        if unpacked != needed or len(body) < 8 + packed_size:
            there = f"{unpacked} were packed into {packed_size}, {len(body) - 8} follow"
            raise ValueError(f"{needed} bytes are needed; {there}: truncated")
        raw, columns = lzf_unpacked(body[8 : 8 + packed_size], needed), []
        for name in wanted:  # field after field, not point after point
            (one, (count,)), start = dtype[name].subdtype or (dtype[name], (1,)), (dtype.fields or {})[name][1]
            columns.append(np.frombuffer(raw, one, points * count, points * start)[::count])
    else:
        raise ValueError(f"DATA is {storage}; ascii, binary or binary_compressed is needed")
    numbers = np.stack(columns, 1).astype(np.float64)
    return numbers[:, :3], numbers[:, 3:] if len(wanted) > 3 else None


def lzf_unpacked(packed: bytes, size: int) -> bytes:
    """LZF: a byte below 32 announces literals, another one a copy of earlier output; `ValueError` if it is invalid."""
    if size > 264 * len(packed):
        raise ValueError(f"{len(packed)} packed bytes cannot hold {size}")
    out, at = bytearray(), 0
    while at < len(packed):
        control, at = packed[at], at + 1
        if control < 32:
            out += packed[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length, at = length + packed[at], at + 1
        back, at = ((control & 31) << 8 | packed[at]) + 1, at + 1
        start, length = len(out) - back, length + 2
        if start < 0 or len(out) + length > size:
            raise ValueError("the packed data is damaged")
        piece = out[start : start + length]
        out += (piece * (length // len(piece) + 1))[:length]  # a copy may overlap what it writes
    if len(out) != size:
        raise ValueError(f"{len(out)} of {size} bytes are there: truncated")
    return bytes(out)
