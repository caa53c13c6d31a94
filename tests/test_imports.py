"""Imports go downwards only, those inside functions and for type checkers included, and no two files import each other."""

import ast
from pathlib import Path

import reqnn

LAYERS = (  # from low to high; packages of one line do not import each other
    "errors version defaults",
    "extras importing memory",
    "quaternion provenance kernels",
    "points",
    "tensor",
    "nn",
    "rules",
    "revision",
    "testing",
    "auditing",
    "models",
    "zoo",
    "data",
    "train",
    "alignment",
    "pretrained",
    "deploy view",
    "commands",
    "cli",
    "__init__",
)
ONLY = {"models": {"models", "errors", "quaternion", "points", "importing"}}  # use less than all that is below
ROOT = Path(reqnn.__file__).parent
FILES = {".".join(f.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): f for f in ROOT.rglob("*.py")}


def imports(name: str) -> set[str]:
    """The files that a file imports."""
    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            found |= {inner if (inner := f"{base}.{alias.name}") in FILES else base for alias in node.names}
    return {file for file in found if file in FILES and file != name}


EDGES = {name: imports(name) for name in FILES}


def part_of(name: str) -> str:
    """The package or file directly below `reqnn` that a file belongs to."""
    return name.split(".")[1] if "." in name else "__init__"


def test_every_file_has_a_layer() -> None:
    assert {part_of(name) for name in FILES} <= set(" ".join(LAYERS).split())


def test_imports_go_down() -> None:
    height = {part: level for level, line in enumerate(LAYERS) for part in line.split()}
    edges = [(part_of(a), part_of(b), f"{a} imports {b}") for a in EDGES for b in EDGES[a]]
    assert [text for a, b, text in edges if a != b and height[a] <= height[b]] == []
    assert [text for a, b, text in edges if b not in ONLY.get(a, {b})] == []


def test_no_files_import_each_other() -> None:
    left = {name: set(inner) for name, inner in EDGES.items()}
    while free := {name for name, inner in left.items() if not inner & left.keys()}:
        left = {name: inner for name, inner in left.items() if name not in free}
    assert sorted(left) == []
