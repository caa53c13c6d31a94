"""Where a number comes from: versions, machine, and the commit of the code that made it."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from reqnn.version import __version__

_PACKAGES = ("torch", "numpy", "roma", "scikit-learn")


def provenance() -> dict[str, Any]:
    """Versions of the software that a result depends on, and the git commit where the package runs from a checkout."""
    versions = {"reqnn": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "platform": platform.platform(), "commit": git_commit()}


def git_commit() -> str | None:
    """The commit of this very code, with "-dirty" where files differ from it; None outside of a checkout."""
    here = Path(__file__)
    # A package installed inside someone else's repository is not tracked by it: that commit would say nothing.
    if _git(here.parent, "ls-files", "--error-unmatch", here.with_name("__init__.py").as_posix()) is None:
        return None
    commit = _git(here.parent, "rev-parse", "HEAD")
    changes = _git(here.parent, "status", "--porcelain", "--", here.parent.as_posix())
    return None if commit is None else commit + ("-dirty" if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
