"""Public names stay what they are when submodules are imported: a submodule named like a function would take its place."""

import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import reqnn

CHECK = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.iter_modules(package.__path__):
    importlib.import_module(f"{package.__name__}.{found.name}")
hidden = [name for name in package.__all__ if type(getattr(package, name)).__name__ == "module"]
sys.exit(f"hidden by submodules: {hidden}" if hidden else 0)
"""


def lazy_packages():
    """Those of our namespaces that import on first use; in the others the function is there first."""
    packages = [getattr(reqnn, name) for name in reqnn.__all__ if isinstance(getattr(reqnn, name), ModuleType)]
    return [package.__name__ for package in packages if hasattr(package, "_HOMES")]


@pytest.mark.parametrize("name", lazy_packages())
def test_no_submodule_hides_a_public_name(name):
    done = subprocess.run([sys.executable, "-c", CHECK, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lazy_packages_are_found():
    assert "reqnn.train" in lazy_packages()
    assert any(found.name == "evaluation" for found in pkgutil.iter_modules(reqnn.train.__path__))
