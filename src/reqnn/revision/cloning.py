"""The functions of a model's own Python modules, cloned for its revised copy.

Replacing ``farthest_point_sample`` in a revised network must not touch the original, which may be running in another
thread. So nothing is patched: the classes of the copy, and the functions they call, are cloned with global names of
their own, in which well-known functions are `PointFunction`s.
"""

from __future__ import annotations

import copy
import functools
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.nn.exchange import exchange_class
from reqnn.revision.coordinate_function import CoordinateFunction
from reqnn.rules.point_function import Known, PointFunction, may_choose_points
from reqnn.tensor.nested import leaves
from reqnn.tensor.trace import function_key

_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Workspace:
    """Clones of the Python modules that a model is written in.

    Args:
        known: well-known function names → their families.
        replace: the user's replacements, by function name.
        of_coordinates: functions that take coordinates as real numbers, by key.
    """

    def __init__(
        self, known: dict[str, Known], replace: dict[str, Callable], of_coordinates: dict[str, CoordinateFunction] | None = None
    ) -> None:
        self.known, self.replace, self.of_coordinates = known, replace, of_coordinates or {}
        self.decisions: dict[str, tuple[bool | None, str, Any]] = {}  # whether ours is called, which row of Table 1, its form
        self._packages: set[str] = set()
        self._namespaces: dict[str, dict[str, Any]] = {}
        self._clones: dict[int, Any] = {}
        self._originals: list[Any] = []  # keeps ids in _clones valid
        self.functions: dict[str, PointFunction] = {}

    def adopt(self, model: nn.Module) -> None:
        """Give the modules of a copied model cloned classes, where a function they can reach is to be replaced."""
        self._packages |= {type(module).__module__.split(".")[0] for module in model.modules()} - {"torch"}
        held = [(module, name, value) for module in model.modules() for name, value in module.__dict__.items()]
        clones = [(module, name, value, self.clone(value)) for module, name, value in held if _may_hold_functions(value)]
        classes = [(module, self.clone(type(module))) for module in model.modules()]
        if self.functions or self.of_coordinates:
            for module, name, value, clone in clones:
                function = isinstance(value, types.FunctionType) and clone is not value
                module.__dict__[name] = HeldFunction(self, value) if function else clone
            for module, clone in classes:
                if clone is not type(module):
                    exchange_class(module, clone)
        missing = set(self.replace) - {function.__name__ for function in self.functions.values()}
        if missing:
            raise InputError(
                f"replace: no function named {', '.join(sorted(missing))} in the modules of the model; "
                f"functions there: {', '.join(sorted(self._function_names()))}"
            )

    def _function_names(self) -> set[str]:
        return {
            key
            for space in self._namespaces.values()
            for key, value in space.items()
            if isinstance(value, (types.FunctionType, PointFunction)) and not key.startswith("_")
        }

    def _is_own(self, name: str) -> bool:
        """Whether a Python module belongs to the model: neither torch, nor ours, nor a library it merely uses."""
        module = sys.modules.get(name)
        if module is None or name.split(".")[0] in ("torch", "builtins"):
            return False
        if name.split(".")[0] == "reqnn":
            return name.startswith("reqnn.models")
        file = getattr(module, "__file__", None)
        if file is None:
            return name == "__main__"
        return name.split(".")[0] in self._packages or not file.startswith(_LIBRARIES)

    def clone(self, value: Any) -> Any:
        """The clone of a function, class or module of the model's; anything else as it is."""
        if id(value) in self._clones:
            return self._clones[id(value)]
        if isinstance(value, types.FunctionType) and self._is_own(value.__module__ or ""):
            return self._function(value)
        if isinstance(value, type) and issubclass(value, nn.Module) and self._is_own(value.__module__):
            return self._class(value)
        if type(value) is type and self._is_own(value.__module__):
            return self._holder(value)
        if isinstance(value, types.ModuleType) and self._is_own(value.__name__):
            twin = types.ModuleType(value.__name__, value.__doc__)
            self._remember(value, twin)
            twin.__dict__.update(self._namespace(value.__name__))
            return twin
        if isinstance(value, functools.partial):
            return functools.partial(self.clone(value.func), *value.args, **value.keywords)
        if isinstance(value, dict) and any(isinstance(held, types.FunctionType) for held in value.values()):
            return type(value)({key: self.clone(held) for key, held in value.items()})
        return value

    def _remember(self, original: Any, clone: Any) -> None:
        self._clones[id(original)] = clone
        self._originals.append(original)

    def _namespace(self, name: str) -> dict[str, Any]:
        if name not in self._namespaces:
            space = self._namespaces[name] = dict(vars(sys.modules[name]))
            for key, value in list(space.items()):
                if not key.startswith("__"):
                    space[key] = self._imported(f"{name}.{key}", key, value) or self.clone(value)
        return self._namespaces[name]

    def _imported(self, where: str, name: str, value: Any) -> Any:
        """A well-known function of a library that the model's modules import, or such a library's module; else None."""
        if isinstance(value, types.ModuleType):
            known = [key for key in vars(value) if key in self.known or key in self.replace]
            if (
                not known
                or self._is_own(value.__name__)
                or value.__name__.split(".")[0] in ("torch", "reqnn", "sys", "builtins")
            ):
                return None
            twin = types.ModuleType(value.__name__, value.__doc__)
            twin.__dict__.update(vars(value))
            for key in known:
                twin.__dict__[key] = self._imported(f"{where}.{key}", key, vars(value)[key]) or vars(value)[key]
            return twin
        own = isinstance(value, types.FunctionType) and self._is_own(value.__module__ or "")
        if own or isinstance(value, type) or not callable(value) or (name not in self.known and name not in self.replace):
            return None
        return self._point_function(f"{where}:imported", value, name)

    def _function(self, function: types.FunctionType, static: bool = False) -> Any:
        home = function.__globals__.get("__name__", "")  # not __module__: a decorator's wrapper has its own globals
        space = self._namespace(home) if self._is_own(home) else function.__globals__
        if id(function) in self._clones:  # met on the way
            return self._clones[id(function)]
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        twin = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells or None)
        twin.__kwdefaults__ = function.__kwdefaults__
        twin.__dict__.update(function.__dict__)
        twin.__module__, twin.__qualname__, twin.__doc__ = function.__module__, function.__qualname__, function.__doc__
        result: Any = twin
        outer = function.__qualname__.rpartition(".")[0]
        if static or not outer or outer.endswith("<locals>"):
            key = function_key(home, function.__code__)
            result = self._of_coordinates(key, twin) or self._point_function(key, twin) or twin
        self._remember(function, result)
        for cell, old in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.clone(old.cell_contents)
            except ValueError:
                continue  # an empty cell stays empty
        return result

    def _of_coordinates(self, key: str, twin: Callable) -> CoordinateFunction | None:
        found = self.of_coordinates.get(key)
        if found is not None and twin.__name__ not in self.replace and twin.__name__ not in self.known:
            found.original = twin
            return found
        return None

    def _point_function(self, key: str, twin: Callable, name: str = "") -> PointFunction | None:
        name = name or twin.__name__
        if name not in self.replace and name not in self.known and not may_choose_points(twin):
            return None
        families = tuple(dict.fromkeys(self.known.values()))
        function = PointFunction(name, self.known.get(name), twin, self.replace.get(name), families)
        function.ours, row, function.form = self.decisions.get(key, (None, "", function.form))
        function.known = function.known or next((family for family in families if family.row == row), None)
        self.functions[key] = function
        return function

    def _class(self, cls: type) -> type:
        if "__slots__" in cls.__dict__:
            return cls
        bases = tuple(self.clone(base) for base in cls.__bases__)
        if id(cls) in self._clones:  # met on the way, through a function that names it
            return self._clones[id(cls)]
        twin = type(cls)(cls.__name__, bases, {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
        self._remember(cls, twin)
        self._remember(twin, twin)
        twin._revised_from = cls  # type: ignore[attr-defined]
        for name, value in cls.__dict__.items():
            if name not in ("__dict__", "__weakref__", "__module__", "__qualname__"):
                setattr(twin, name, self._member(value))
        twin.__reduce_ex__ = functools.partialmethod(_reduce, self, cls)  # type: ignore[assignment]
        return twin

    def _holder(self, cls: type) -> type:
        """A class that is no network but holds functions, as a subclass with clones of its static methods."""
        static = {name: value for name, value in vars(cls).items() if isinstance(value, staticmethod)}
        if not static:
            return cls
        twin = type(cls.__name__, (cls,), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
        self._remember(cls, twin)
        for name, value in static.items():
            setattr(twin, name, self._member(value))
        return twin

    def _member(self, value: Any) -> Any:
        if isinstance(value, staticmethod) and isinstance(value.__func__, types.FunctionType):
            return staticmethod(self._function(value.__func__, static=True))
        if isinstance(value, classmethod):
            return classmethod(self.clone(value.__func__))
        if isinstance(value, property):
            get, put, drop = (self.clone(f) if f else None for f in (value.fget, value.fset, value.fdel))
            return property(get, put, drop, value.__doc__)
        return self.clone(value)

    def __deepcopy__(self, memo: dict) -> Workspace:
        return self

    def __reduce__(self) -> tuple:
        decisions = {key: (f.ours, f.known.row if f.known else "", f.form) for key, f in self.functions.items()}
        return _restore_workspace, (self.replace, decisions, self._packages, self.of_coordinates)


def copy_of(model: nn.Module) -> nn.Module:
    """A deep copy, also of a network that keeps what its last pass has computed; that is cut from its graph."""
    kept = (x for module in model.modules() for x in leaves(vars(module)) if isinstance(x, Tensor) and x.grad_fn is not None)
    return copy.deepcopy(model, {id(x): x.detach().clone() for x in kept})


def _may_hold_functions(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, functools.partial, dict))


class HeldFunction:
    """A function that a module holds as an attribute, called in its cloned form and pickled by its original's name."""

    def __init__(self, workspace: Workspace, original: types.FunctionType) -> None:
        self.workspace, self.original = workspace, original
        self.__name__ = original.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The clone's result."""
        return self.workspace.clone(self.original)(*args, **kwargs)

    def __deepcopy__(self, memo: dict) -> HeldFunction:
        return self


def _restore_workspace(replace: dict, decisions: dict, packages: set[str], of_coordinates: dict) -> Workspace:
    from reqnn.rules.paper.point_functions import KNOWN_FUNCTIONS

    workspace = Workspace(KNOWN_FUNCTIONS, replace, of_coordinates)
    workspace.decisions, workspace._packages = decisions, packages
    return workspace


def _reduce(self: nn.Module, workspace: Workspace, cls: type, protocol: Any) -> tuple:
    """Pickle and deepcopy of an instance of a cloned class: by the original class and the workspace."""
    return _restore_instance, (workspace, cls), self.__dict__


def _restore_instance(workspace: Workspace, cls: type) -> Any:
    twin = workspace.clone(cls)
    return twin.__new__(twin)
