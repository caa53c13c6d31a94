"""From a run to weights that ship with the package."""
