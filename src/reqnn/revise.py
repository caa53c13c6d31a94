"""`revise`: an ordinary point-cloud network in, a rotation-equivariant quaternion network out."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.cloning import Workspace
from reqnn.dispatch import quaternions
from reqnn.errors import InputError, NoRuleError
from reqnn.inputs import read_inputs
from reqnn.module import RevisedModel, to_outputs
from reqnn.nn.coordinates import average_frames_hook, principal_frame_hook
from reqnn.nn.quaternion_to_real import quaternion_to_real_hook
from reqnn.nn.removed import Removed
from reqnn.plan import Plan, RealBefore, Restart
from reqnn.report import RevisionReport
from reqnn.rules import RuleSet, get_rules
from reqnn.rules.paper.point_functions import KNOWN_FUNCTIONS


def revise(
    model: nn.Module,
    points: Tensor | tuple[Any, ...],
    to_real: str | Sequence[str] | bool | None = None,
    coordinates: Sequence[str] = (),
    remove: Sequence[str] = (),
    replace: dict[str, Callable] | None = None,
    scalars: int = 0,
    init: str = "fresh",
    vector_axis: int | Sequence[int | None] | None = None,
    rules: str | RuleSet = "paper",
    strict: bool = False,
) -> RevisedModel:
    """Revise a network so that its features turn with the input and its outputs do not (paper, sections 3.2-3.6).

        net(points @ R.T) == net(points)      for every rotation R and every order of the points

    Args:
        model: any `nn.Module`; it is left untouched.
        points: an example input as the model takes it (a tuple, where it takes several); an axis of size 3·V holds V
            vectors (xyz, normals, …).
        to_real: the submodule (or several) before which Quaternion2Real stands; None: the first Linear on (B, C) features, or
            the last layer where there is none; False: nowhere, all outputs are vectors.
        coordinates: submodules that take raw coordinates; they get PCA-frame coordinates.
        remove: submodules to drop, such as spatial transformers; what they return acts as the identity.
        replace: function name → permutation-invariant function, for functions in the model's own Python modules. Well-known
            ones are replaced without asking.
        scalars: how many trailing channels of the vector axis are rotation-invariant numbers (colour, intensity).
        init: "fresh" initialises the layers anew, "copy" keeps the original's weights wherever shapes allow.
        vector_axis: which axis holds the vectors, where the shape leaves it open; for several inputs one each, None for real
            ones.
        rules: a rule set or its name.
        strict: refuse rules that go beyond the paper.

    Returns:
        A `RevisedModel` with the same call and outputs; its `report` says what was done.

    Raises:
        NoRuleError: an operation has no rule; the message names it, the layer, the line, and the ways out.
        InputError: an argument does not fit.
    """
    if init not in ("fresh", "copy"):
        raise InputError(f"init is '{init}'; it must be 'fresh' or 'copy'")
    model = _unwrap(model)
    inputs, args = read_inputs(points, vector_axis, scalars)
    names = dict(model.named_modules())
    to_real_names = [to_real] if isinstance(to_real, str) else list(to_real) if isinstance(to_real, (tuple, list)) else []
    for option, wanted in (("to_real", to_real_names), ("coordinates", coordinates), ("remove", remove)):
        _check_names(option, wanted, names)

    shapes, expected = _run_original(model, args, [*remove])
    rule_set = get_rules(rules)
    vector_like = to_real is False or (to_real is None and _all_vectors(expected, args, inputs.axes))
    auto_real = to_real is None and not vector_like
    found: list[str] = []
    while True:
        twin = copy.deepcopy(model).eval()
        workspace = Workspace(KNOWN_FUNCTIONS, dict(replace or {}))
        workspace.adopt(twin)
        for name in remove:
            _set_submodule(twin, name, _stand_in(name, *shapes[name]))
        _place_hooks(twin, [*to_real_names, *found], coordinates, rule_set)
        net = RevisedModel(twin, inputs, rule_set, strict, auto_real)
        plan = Plan(twin)
        try:
            _dry_run(net, plan, args, vector_like)
            break
        except RealBefore as finding:
            found.append(str(finding))
        except _HeadWanted:
            auto_real = True

    twin.train(model.training)
    net.train(model.training)
    for name, module in model.named_modules():
        if name in dict(twin.named_modules()):
            twin.get_submodule(name).training = module.training
    copied = _initialise(twin, model, init)
    net.report = RevisionReport(
        rows=plan.met_operations,
        parameters_before=_count(model),
        parameters_after=_count(net),
        to_real=list(dict.fromkeys([*to_real_names, *plan.heads, *found])),
        resized=plan.resized,
        dropped=plan.dropped,
        replaced=[f.__name__ for f in workspace.functions.values() if f.ours or f.replacement is not None],
        kept=[f.__name__ for f in workspace.functions.values() if f.ours is False],
        copied=copied,
        notes=_notes(plan, found),
    )
    return net


def _unwrap(model: nn.Module) -> nn.Module:
    """The network inside DataParallel, DistributedDataParallel or torch.compile, also where those sit inside."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; revise takes an nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("a TorchScript module has no Python code left to revise; pass the module it was made from")
    model = _inner(model)
    if any(_inner(module) is not module for module in model.modules()):
        model = copy.deepcopy(model)
        for name, module in list(model.named_modules()):
            if name and _inner(module) is not module:
                _set_submodule(model, name, _inner(module))
    return model


def _inner(model: nn.Module) -> nn.Module:
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif type(model).__name__ == "OptimizedModule":
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def _check_names(option: str, wanted: Sequence[str], names: dict[str, nn.Module]) -> None:
    if isinstance(wanted, str):
        raise InputError(f"{option}='{wanted}': give a tuple of names, such as ('{wanted}',)")
    for name in wanted:
        if name not in names or not name:
            close = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or sorted(filter(None, names))[:8]
            raise InputError(f"{option}: the model has no submodule '{name}'; did you mean {', '.join(close)}?")


def _run_original(model: nn.Module, args: tuple[Any, ...], watch: list[str]) -> tuple[dict[str, tuple[Any, Any]], Any]:
    """One pass of the original: the inputs and outputs of some submodules, and what it returns."""
    twin = copy.deepcopy(model).eval()
    seen: dict[str, tuple[Any, Any]] = {}
    for name in watch:

        def hook(_: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
            seen[name] = (inputs[0] if inputs else None, output)

        twin.get_submodule(name).register_forward_hook(hook)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            output = twin(*_example(args, twin))
        except Exception as error:
            raise InputError(
                f"the model itself fails on the example input ({type(error).__name__}: {error}); give one that it takes"
            ) from error
    for name in watch:
        if name not in seen:
            raise InputError(f"remove: '{name}' is never called in a forward pass")
    return seen, output


def _example(args: tuple[Any, ...], model: nn.Module) -> tuple[Any, ...]:
    """Example inputs on the device and in the dtype of the model."""
    reference = next((p for p in model.parameters() if p.is_floating_point()), None)
    if reference is None:
        return args
    return tuple(
        value.to(reference) if isinstance(value, Tensor) and value.is_floating_point() else value for value in args
    )


def _stand_in(name: str, given: Any, output: Any) -> Removed:
    """What replaces a removed submodule, from what it took and returned."""
    if isinstance(output, (tuple, list)):
        output = output[0]
    if isinstance(output, Tensor) and isinstance(given, Tensor):
        if output.dim() in (2, 3) and output.shape[-1] == output.shape[-2] and output.shape != given.shape:
            return Removed(output.shape[-1], batched=output.dim() == 3)
        if output.shape == given.shape:
            return Removed()
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    raise InputError(
        f"remove: '{name}' returns {shape}, which is neither a (B, k, k) transform nor of its input's shape: no identity fits"
    )


def _set_submodule(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, key = name.rpartition(".")
    model.get_submodule(parent)._modules[key] = module


def _place_hooks(model: nn.Module, to_real: Sequence[str], coordinates: Sequence[str], rules: RuleSet) -> None:
    for name in to_real:
        model.get_submodule(name).register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
    for name in coordinates:
        model.get_submodule(name).register_forward_pre_hook(principal_frame_hook, with_kwargs=True)
        if rules.option("frame") == "average":
            model.get_submodule(name).register_forward_hook(average_frames_hook)


class _HeadWanted(Exception):  # noqa: N818 - a finding of the dry run
    """The named places of Quaternion2Real leave the outputs quaternion: the head needs its own."""


def _dry_run(net: RevisedModel, plan: Plan, args: tuple[Any, ...], vector_like: bool) -> None:
    """Run the copy on quaternions until nothing changes any more."""
    watchers = _watch(net, plan)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        _until_settled(net, plan, args, lambda output: _settle_outputs(net, plan, output, vector_like))
        if plan.unvisited():
            _dry_run_training(net, plan, args)
    for watcher in watchers:
        watcher.remove()


def _until_settled(net: RevisedModel, plan: Plan, args: tuple[Any, ...], settle: Callable[[Any], None]) -> None:
    for _ in range(2 * len(list(net.model.parameters())) + 2 * len(list(net.model.modules())) + 10):
        plan.begin()
        try:
            return settle(net.run(net.context(plan), _example(args, net.model), {}))
        except Restart:
            continue
    raise AssertionError("the dry run does not settle")


def _dry_run_training(net: RevisedModel, plan: Plan, args: tuple[Any, ...]) -> None:
    """Layers that eval mode does not reach (auxiliary heads) may be reached in training mode."""
    met, heads = list(plan.met_operations), list(plan.heads)
    state = {name: value.clone() for name, value in net.model.state_dict().items()}
    net.model.train()
    try:
        _until_settled(net, plan, args, lambda output: None)
    except (ValueError, RuntimeError) as error:
        if isinstance(error, NoRuleError):
            raise
    net.model.eval()
    now = net.model.state_dict()
    net.model.load_state_dict({k: v for k, v in state.items() if k in now and now[k].shape == v.shape}, strict=False)
    plan.met_operations = [*met, *(row for row in plan.met_operations if row not in met)]
    plan.heads = [*heads, *(name for name in plan.heads if name not in heads)]


def _watch(net: RevisedModel, plan: Plan) -> list[Any]:
    """Hooks for the dry run: leaves of the real part are noted, modules with a rule of their own are swapped."""
    handles = []
    for name, module in net.model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_pre_hook(_real_leaf_watcher(plan, name)))
        build = net.rules.find_module(type(module))
        if build is not None and name:
            handles.append(module.register_forward_pre_hook(_swapper(net, name, build)))
    return handles


def _swapper(net: RevisedModel, name: str, build: Callable[..., nn.Module]) -> Callable[..., None]:
    def swap(module: nn.Module, args: tuple[Any, ...]) -> None:
        operands = list(quaternions(args))
        if operands:
            _set_submodule(net.model, name, build(module, operands[0]))
            raise Restart

    return swap


def _real_leaf_watcher(plan: Plan, name: str) -> Callable[..., None]:
    def watch(module: nn.Module, args: tuple[Any, ...]) -> None:
        plan.visited.add(name)
        if not list(quaternions(args)) and not any(met.layer == name and met.kind == "quaternion" for met in plan.met_operations):
            plan.met_module(name, module)

    return watch


def _settle_outputs(net: RevisedModel, plan: Plan, output: Any, vector_like: bool) -> None:
    """Quaternion outputs with no meaning yet: coordinates, where the original returns those, else real numbers."""
    loose = [q for q in quaternions(output) if q.axis is None or "f" in q.vectors]
    if not loose:
        return
    if vector_like:
        for q in loose:
            plan.output_vectors(q)
        raise NoRuleError(
            "the outputs should be coordinates, but the layer that makes them "
            f"({loose[0].source or 'unknown'}) has no 3·V output channels; name the layer where real features begin (to_real=)",
            "the model's output",
        )
    if _has_real_output(output):
        return  # side outputs, such as global features beside logits: their squared norms are returned
    if not net.auto_real:
        raise _HeadWanted
    for q in loose:
        if q.source is not None:
            plan.real_before(q.source)


def _has_real_output(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_real_output, tree.values()))
    if isinstance(tree, (tuple, list)):
        return any(map(_has_real_output, tree))
    return isinstance(tree, Tensor) and tree.is_floating_point() and type(tree) is Tensor


def _all_vectors(expected: Any, args: tuple[Any, ...], axes: tuple[int | None, ...]) -> bool:
    """Whether every output of the original looks like coordinates: three axes, 3 on the same one as the input."""
    position = next(i for i, axis in enumerate(axes) if axis is not None)
    axis, rank = axes[position], args[position].dim()
    outputs = [t for t in _tensors(expected) if t.is_floating_point()]
    assert axis is not None
    return bool(outputs) and rank > 2 and all(t.dim() == rank and t.shape[axis] == 3 for t in outputs)


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [t for item in tree for t in _tensors(item)] if isinstance(tree, (tuple, list)) else []


def _initialise(twin: nn.Module, model: nn.Module, init: str) -> list[str]:
    """Fresh weights, or the original's where shapes allow; returns the names of the copied ones."""
    if init == "fresh":
        for module in twin.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        return []
    original = dict(model.named_parameters())
    return [name for name, p in twin.named_parameters() if name in original and original[name].shape == p.shape]


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _notes(plan: Plan, found: list[str]) -> list[str]:
    notes = []
    if found:
        notes.append(
            f"no Linear on (B, C) features stands at the end, so the last layer ({', '.join(found)}) became the real part; "
            "choose another place with to_real="
        )
    if plan.vector_layers:
        notes.append(f"the outputs of {', '.join(plan.vector_layers)} are vectors (3 channels became 1 quaternion)")
    return notes


__all__ = ["revise", "to_outputs"]
