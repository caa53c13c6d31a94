"""Features of a revised network taken out, rotated, and put back (paper, section 4 and figure 2).

features = net.features(points, at="conv5")                  # what that submodule gives
rotated = reqnn.rotate_features(features, rotation)           # R f R̄ of every quaternion
net.put_features(rotated, points, at="conv5")                 # the outputs with those features in its place
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import quaternion
from reqnn.errors import InputError
from reqnn.nn.quaternion_to_real import becomes_real_before
from reqnn.revision.outputs import to_outputs
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.running import in_this_thread

_UNIT = 1e-3  # how far a quaternion may be from length 1

Change = Callable[[Any], Any]
"""Features as they pass a place → what replaces them."""


@dataclass(frozen=True)
class Place:
    """Where features are taken: what a submodule gives, or what Quaternion2Real before it is given.

    Attributes:
        name: of the submodule, "" for the model itself.
        module: the submodule.
        call: which of its calls in one pass, counted from 1; None where it has to be the only one.
        before: whether its input is meant.
    """

    name: str
    module: nn.Module
    call: int | None = None
    before: bool = False

    def __str__(self) -> str:
        shown = f"'{self.name}'" if self.name else "the model itself"
        return f"the input of {shown}" if self.before else shown


def find_place(net: Any, at: str | None) -> Place:
    """The place that ``at`` names: "conv5", "conv5#2" for its second call, None for what Quaternion2Real is given."""
    model = net.model
    names = dict(model.named_modules(remove_duplicate=False))
    if at is None:
        heads = [name for name, m in model.named_modules() if becomes_real_before(m)]
        if len(heads) > 1:
            raise InputError(f"features become real before {', '.join(heads)}; say with at= which submodule's output is wanted")
        return Place(heads[0], names[heads[0]], before=True) if heads else Place("", model)
    if not isinstance(at, str):
        raise InputError(f"at is a {type(at).__name__}; the name of a submodule is needed, such as at='conv5'")
    if at in names:
        return Place(at, names[at])
    name, _, call = at.rpartition("#")
    if name in names and call.isdecimal() and int(call) > 0:
        return Place(name, names[name], int(call))
    raise no_submodule("at", at, names)


def no_submodule(option: str, name: str, names: Iterable[str]) -> InputError:
    """The error for a name that no submodule has, with similar ones."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.4) or sorted(filter(None, names))[:8]
    return InputError(f"{option}: the model has no submodule '{name}'; did you mean {', '.join(close)}?")


def take_features(net: Any, at: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """What `RevisedModel.features` returns."""
    net.keep_real_places()
    place, found = find_place(net, at), []
    if place.before:
        place = replace(place, call=1)  # a network that answers by several passes over its layers: the first counts

    def keep(value: Any) -> Any:
        found.append(_complete(value, place))
        return value

    with _visited(place, keep) as calls:
        net.run(net.context(), args, kwargs)
    _check_calls(net.model, place, calls[0])
    return found[-1]


def put_features(net: Any, features: Tensor, at: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `RevisedModel.put_features` returns."""
    net.keep_real_places()
    place = find_place(net, at)
    with _visited(place, lambda value: _in_place_of(value, features, place)) as calls:
        output = net.run(net.context(), args, kwargs)
    _check_calls(net.model, place, calls[0])
    return to_outputs(output)


def rotate_features(features: QuaternionTensor, rotation: Tensor) -> QuaternionTensor:
    """R f R̄ of every quaternion: the features of the rotated object (paper, equation 1 and section 3.2).

    Args:
        features: quaternion features, as `RevisedModel.features` gives them; scalars in them stay as they are.
        rotation: a matrix (3, 3) or a unit quaternion (4,) in the order (w, x, y, z); or one for each cloud, (B, 3, 3) or
            (B, 4), where axis 0 of the features counts the clouds.
    """
    if not isinstance(features, QuaternionTensor):
        given = f"a real tensor of shape {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise InputError(
            f"features is {given}: only quaternion features rotate. Real ones, behind Quaternion2Real, are the same in every "
            "orientation; take features of a submodule before it"
        )
    vectors = features.imaginary()
    matrix = _matrix(rotation).to(vectors)
    if matrix.dim() == 3:
        if features.rank < 1 or matrix.shape[0] != vectors.shape[1]:
            raise InputError(
                f"{matrix.shape[0]} rotations are given for features of shape {tuple(features.user_shape)}; one is needed, or "
                "one for each entry of axis 0"
            )
        rotated = torch.einsum("bij,jb...->ib...", matrix, vectors)
    else:
        rotated = torch.einsum("ij,j...->i...", matrix, vectors)
    return _like(features, torch.cat([features.components[:-3], rotated]))


def _like(features: QuaternionTensor, components: Tensor) -> QuaternionTensor:
    """Other components in the place of some features."""
    out = features.same(components)
    out.source, out.channel_axis = features.source, features.channel_axis
    return out


def _matrix(rotation: Any) -> Tensor:
    """A rotation, or several, as matrices (3, 3) or (B, 3, 3)."""
    if not isinstance(rotation, Tensor) or not rotation.is_floating_point():
        kind = f"of dtype {rotation.dtype}" if isinstance(rotation, Tensor) else f"a {type(rotation).__name__}"
        raise InputError(f"rotation is {kind}; a floating tensor is needed: a matrix (3, 3) or a unit quaternion (4,)")
    if rotation.shape[-2:] == (3, 3) and rotation.dim() in (2, 3):
        quaternion.from_matrix(rotation)  # raises where it is none
        return rotation
    if rotation.dim() in (1, 2) and rotation.shape[-1] == 4:
        length = quaternion.norm(rotation)
        if not bool(((length - 1).abs() < _UNIT).all()):
            raise InputError(f"rotation has norm {length.flatten()[0]:.4g}; a unit quaternion is needed: divide it by its norm")
        return quaternion.to_matrix(rotation / length[..., None])
    raise InputError(
        f"rotation has shape {tuple(rotation.shape)}; a matrix (3, 3) or a unit quaternion (4,) is needed, or one a cloud"
    )


@contextmanager
def _visited(place: Place, change: Change) -> Iterator[list[int]]:
    """Inside this context, in this thread, what passes the place goes through `change`; counts the calls of the submodule."""
    calls = [0]

    def chosen() -> bool:
        calls[0] += 1
        return calls[0] == (place.call or 1)

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        return change(output) if chosen() else output

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (change(args[0] if args else None), *args[1:]) if chosen() else args

    # an input before Quaternion2Real's own hook, an output after all hooks of its module
    if place.before:
        handle = place.module.register_forward_pre_hook(in_this_thread(before), prepend=True)
    else:
        handle = place.module.register_forward_hook(in_this_thread(after))
    try:
        yield calls
    finally:
        handle.remove()


def _complete(value: Any, place: Place) -> Tensor:
    """Features as they are now: computed, where a batch-norm has left that for later, and safe from in-place changes."""
    if isinstance(value, QuaternionTensor):
        return _like(value, value.components.clone())
    if isinstance(value, Tensor):
        return value.as_subclass(Tensor).clone()
    parts = [type(part).__name__ for part in value] if isinstance(value, (tuple, list)) else []
    shown = f"{len(parts)} outputs ({', '.join(parts)})" if parts else f"a {type(value).__name__}"
    inner = [f"{place.name}.{name}" if place.name else name for name, _ in place.module.named_modules() if name]
    way = f": name one of its submodules, such as {', '.join(inner[-3:])}" if inner else ""
    raise InputError(f"{place} gives {shown}, not one tensor{way}")


def _in_place_of(value: Any, features: Any, place: Place) -> Tensor:
    """The features, checked, as a part of this pass."""
    given = _complete(value, place)
    is_quaternion = isinstance(given, QuaternionTensor)
    if not isinstance(features, Tensor) or isinstance(features, QuaternionTensor) is not is_quaternion:
        wanted = "a QuaternionTensor" if is_quaternion else "a real tensor"
        raise InputError(f"features is a {type(features).__name__}; {place} gives {wanted} of shape {tuple(given.shape)}")
    if features.shape != given.shape:
        raise InputError(
            f"features have shape {tuple(features.shape)}; {place} gives {tuple(given.shape)} for these inputs: give inputs "
            "with as many clouds and points as the features are from"
        )
    if (features.dtype, features.device) != (given.dtype, given.device):
        have, want = f"{features.dtype} on {features.device}", f"{given.dtype} on {given.device}"
        raise InputError(f"features are {have}; {place} gives {want}: convert one of them with .to()")
    if not isinstance(given, QuaternionTensor):
        return features
    assert isinstance(features, QuaternionTensor)
    if features.components.shape != given.components.shape:
        raise InputError(f"features have {features.components.shape[0]} components; {place} gives {given.components.shape[0]}")
    return _like(given, features.components)  # in the context of this pass, not of the one that they come from


def _check_calls(model: nn.Module, place: Place, calls: int) -> None:
    """`InputError` where the place was not passed exactly as asked for."""
    if calls == 0:
        raise InputError(f"{place} never runs in this pass; name a submodule that the network's forward calls")
    if calls < (place.call or 1):
        raise InputError(f"{place} runs {calls} times in one pass; there is no call {place.call}")
    if place.call is None and calls > 1:
        way = "the submodule before it and a call, as at='conv5#1'" if place.before else f"a call: at='{place.name}#1', …"
        raise InputError(f"{place} runs {calls} times in one pass; name {way}")
