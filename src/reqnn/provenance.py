"""Where a number comes from: versions, platform, and the commit of the code that made it."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from reqnn.version import __version__


def provenance() -> dict[str, Any]:
    """Versions of the software that a result depends on, and the git commit if the package runs from a clone."""
    versions = {"reqnn": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "roma", "scikit-learn"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {"versions": versions, "platform": platform.platform(), "commit": git_commit()}


def git_commit() -> str | None:
    """The commit of this code, with "-dirty" if files differ from it; None outside of a clone."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        # A package installed inside someone else's repository is not tracked by it: that commit would say nothing.
        git("ls-files", "--error-unmatch", (folder / "__init__.py").as_posix())
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", folder.as_posix()) else "")
    return None
