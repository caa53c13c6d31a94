"""Text meshes that break off: readers take what is there without a word, so it is counted beforehand."""

from __future__ import annotations


def check_whole(content: bytes, suffix: str) -> None:
    """`ValueError` where a text PLY or STL file lacks its end; other kinds their readers check, an OBJ file nobody can."""
    if suffix == ".ply":
        _check_ply(content)
    text_stl = suffix == ".stl" and content.lstrip()[:5].lower() == b"solid" and b"facet" in content[:1000].lower()
    if text_stl and b"endsolid" not in content[-1000:].lower():
        raise ValueError("its last line, endsolid, is missing")


def _check_ply(content: bytes) -> None:
    header, found, body = content.partition(b"end_header")
    if not found or b"format ascii" not in header:
        return
    words = [line.split() for line in header.splitlines()]
    announced = sum(int(line[2]) for line in words if len(line) == 3 and line[0] == b"element")
    lines = sum(1 for line in body.splitlines() if line.strip())
    if lines < announced:
        raise ValueError(f"{announced} vertices and faces are announced and {lines} are there")
