"""Write result files: atomically, with versions and commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reqnn.data.files import atomic_file
from reqnn.provenance import provenance


def write_result_file(path: Path, content: dict[str, Any]) -> Path:
    """Write JSON, with versions, platform and commit if the content does not name them."""
    return write_page(path, json.dumps(provenance() | content, indent=1, ensure_ascii=False, default=str) + "\n")


def write_page(path: Path, text: str) -> Path:
    """Write text; `InputError` if the folder cannot be written to."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path
