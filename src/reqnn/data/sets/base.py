"""What a data set with a name is: where it lies, and how to get it where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reqnn.data.dataset import PointClouds
from reqnn.data.layouts import Request


@dataclass(frozen=True)
class NamedSet:
    """A data set that `reqnn.data.load` knows by name.

    Args:
        summary: what it is, in a line.
        folders: names of its folder under the data root, the preferred one first.
        how_to_get: what to get and where it is published.
        classes: the class names, where the files do not hold them.
        only: the classes to keep, where the folders hold more.
        up: the vertical axis, where the layout does not say.
        embedded: makes the clouds where no files are needed.
    """

    name: str
    summary: str
    folders: tuple[str, ...] = ()
    how_to_get: str = ""
    classes: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    up: str | None = None
    embedded: Callable[[Request], PointClouds] | None = None
