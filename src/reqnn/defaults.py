"""What a layer needs from those above it, put here by the top of the package (`reqnn/__init__.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

find_rules: Callable[[str], Any]
"""A rule set by its name: quaternion tensors outside of any network have one, too."""
