"""`revise`: an ordinary point-cloud network in, a rotation-equivariant quaternion network out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from reqnn.errors import InputError, NoRuleError
from reqnn.kernels import run as kernels
from reqnn.nn.coordinates import axis_of_vectors
from reqnn.revision.choices import Block, Choices
from reqnn.revision.cloning import Workspace, copy_of
from reqnn.revision.dry_run import HeadWanted, VectorsLost, dry_run, example_for
from reqnn.revision.features import no_submodule
from reqnn.revision.frames import BlackBox, FramedModel, coordinates_among, framed
from reqnn.revision.inputs import Inputs, is_numbers, read_inputs
from reqnn.revision.module import RevisedModel
from reqnn.revision.outputs import likely_outputs, matrix_outputs, rotating_outputs, unclear_outputs
from reqnn.revision.parameters import UsedInParts
from reqnn.revision.plain_lists import find_plain_lists, register_plain_lists
from reqnn.revision.plan import Plan, RealBefore
from reqnn.revision.removal import Call
from reqnn.revision.report import RevisionReport, count_parameters
from reqnn.revision.self_check import self_check
from reqnn.rules import RuleSet, get_rules
from reqnn.rules.paper.point_functions import KNOWN_FUNCTIONS
from reqnn.tensor.nested import leaves


def revise(
    model: nn.Module,
    points: Tensor | tuple[Any, ...],
    to_real: str | Sequence[str] | bool | None = None,
    coordinates: Sequence[str] | str = (),
    remove: Sequence[str] = (),
    replace: dict[str, Callable] | None = None,
    scalars: int = 0,
    init: str = "fresh",
    vector_axis: int | Sequence[int | None] | None = None,
    rules: str | RuleSet = "paper",
    strict: bool = False,
    check: bool = True,
    outputs: Sequence[str] | None = None,
) -> RevisedModel:
    """Revise a network so that its features rotate with the input and its outputs do not (paper, sections 3.2-3.6).

        net(points @ R.T) == net(points)      for every rotation R and every order of the points

    (Outputs that are coordinates rotate instead; outputs at points follow the order of the points.)

    Args:
        model: any `nn.Module`; it is left untouched.
        points: an example input as the model takes it (a tuple, where it takes several); an axis of size 3·V holds V
            vectors (xyz, normals, …).
        to_real: the submodule (or several) before which Quaternion2Real stands; None: the first Linear on (B, C) features, or
            the last layer where there is none. Outputs that look like coordinates (as many axes as the input, 3 on the same
            one) are vectors that rotate; see `outputs`. False: nowhere, every output with an axis of 3 is vectors.
        coordinates: submodules that need real coordinates; they compute in the PCA frame of the cloud, and coordinates that
            they return are rotated back. "auto" finds them: those around operations that have no rule, if there are none
            functions of the model's own; matrices among `outputs` imply it.
        remove: submodules to drop, such as spatial transformers; what they return acts as the identity.
        replace: function name → permutation-invariant function, for functions in the model's own Python modules. Well-known
            ones are replaced without asking.
        scalars: how many trailing channels of the vector axis are rotation-invariant numbers (colour, intensity).
        init: "fresh" initialises the layers anew, "copy" keeps the original's weights wherever shapes allow.
        vector_axis: which axis holds the vectors, where the shape leaves it open; for several inputs one each, None for real
            ones.
        rules: a rule set or its name; "frames" runs any network, also a function, as it is in the PCA frames of each cloud.
        strict: refuse rules that go beyond the paper.
        outputs: "vectors", "matrices" (rotations, covariances: A becomes R·A·Rᵀ) or "real" for each tensor that the model
            returns, if their shapes do not tell (three classes).
        check: try the result once, on bumpy clouds like the example, rotated and in another order; False leaves it out.

    Returns:
        A `RevisedModel` with the same call and outputs; its `report` says what was done.

    Raises:
        NoRuleError: an operation has no rule; the message names it, the layer, the line, and the ways out.
        SelfCheckError: the outputs depend on the orientation or the order of the points all the same (`check`), or on nothing.
        InputError: an argument does not fit.
    """
    if init not in ("fresh", "copy"):
        raise InputError(f"init is '{init}'; it must be 'fresh' or 'copy'")
    for name, function in (replace or {}).items():
        if not callable(function):
            raise InputError(f"replace: the replacement of '{name}' is a {type(function).__name__}, which is not callable")
    rule_set = get_rules(rules)
    if rule_set.name == "frames":
        given = {"coordinates": coordinates, "remove": remove, "replace": replace, "strict": strict, "to_real": to_real}
        return _in_frames(model, *read_inputs(points, vector_axis, scalars), rule_set, init, outputs, given)
    model = _unwrap(model)
    unseen = find_plain_lists(model)
    if unseen:
        model = copy_of(model)
        register_plain_lists(model, unseen)
    inputs, args = read_inputs(points, vector_axis, scalars)
    names = dict(model.named_modules())
    to_real_names = [to_real] if isinstance(to_real, str) else list(to_real) if isinstance(to_real, (tuple, list)) else []
    named = () if coordinates == "auto" else coordinates
    for option, wanted in (("to_real", to_real_names), ("coordinates", named), ("remove", remove)):
        _check_names(option, wanted, names)

    calls, expected = _run_original(model, args, [*remove])
    rotating = rotating_outputs(expected, args, inputs, to_real, outputs)
    auto_real = to_real is None and not all(r for r, leaf in zip(rotating, leaves(expected), strict=True) if is_numbers(leaf))
    choices = Choices(
        to_real_names,
        auto_real,
        rotating,
        open=outputs is None and to_real is None,
        stated=outputs is not None,
        auto_frames=(coordinates == "auto" or (not coordinates and "matrices" in (outputs or ()))) and not strict,
        blocks={name: Block() for name in named},
        axis=inputs.first[1],
        functions=None if strict else {},
        back=matrix_outputs(expected, outputs),
        likely=likely_outputs(expected, rotating),
    )
    axes = _axes_of_vectors(expected, rotating, inputs)
    if strict and choices.back:
        raise InputError("outputs: 'matrices' are rotated back from the PCA frame, which goes beyond the paper (strict=True)")
    while True:
        twin = copy_of(model).eval()
        workspace = Workspace(KNOWN_FUNCTIONS, dict(replace or {}), choices.functions)
        workspace.adopt(twin)
        for name in remove:
            twin.set_submodule(name, calls[name].identity(name))
        choices.place(twin, inputs.first[1])
        net = RevisedModel(twin, inputs, rule_set, strict, choices.auto_real)
        net.matrices_in_frame = choices.matrices
        net.back = {place: known or axes[place] for place, known in choices.back.items()}
        plan = Plan(twin)
        plan.keep, plan.parts = choices.keep, choices.parts
        try:
            with kernels.switched(False):  # compiling loops takes longer than these few passes
                dry_run(net, plan, args, choices.rotating, choices.keep, model)
            break
        except (RealBefore, VectorsLost, HeadWanted, UsedInParts, NoRuleError) as event:
            choices.learn(event, plan)

    net.remember_real_places()
    _restore_modes(net, model)
    copied = _initialise(twin, model, init)
    plan.learned.initialise()
    net.report = _report(model, net, plan, workspace)
    net.report.to_real = list(dict.fromkeys([*to_real_names, *plan.heads, *choices.found, *choices.gates]))
    net.report.rows += choices.rows()
    notes = unclear_outputs(expected, choices.rotating, stated=outputs is not None or to_real is not None)
    net.report.copied, net.report.notes = copied, choices.notes(plan) + notes
    if unseen:
        kept = ", ".join(f"{name}.{attribute}".lstrip(".") for name, attribute in unseen)
        net.report.notes.append(f"layers in plain lists, which PyTorch neither trains nor saves, are a ModuleList: {kept}")
    if check:
        with kernels.switched(False):
            net.report.notes += self_check(net, model, example_for(args, twin))
    return net


def _in_frames(
    model: Any, inputs: Inputs, args: tuple[Any, ...], rules: RuleSet, init: str, outputs: Any, given: dict[str, Any]
) -> FramedModel:
    """A copy of any network, or a function, in PCA frames."""
    for name, value in given.items():
        if value is not None and value is not False and value != ():
            raise InputError(
                f"{name}={value!r} has no meaning with rules='frames', which runs the network as it is; leave it out"
            )
    if not callable(model) or isinstance(model, type):
        raise InputError(f"model is a {type(model).__name__}; revise takes an nn.Module, with rules='frames' also a function")
    if not isinstance(model, nn.Module):
        model = BlackBox(model)
    twin = copy_of(_inner(model)) if not isinstance(model, BlackBox) else model
    expected = _run_original(twin, args, [])[1]
    rotating = rotating_outputs(expected, args, inputs, given["to_real"], outputs)
    rotated = matrix_outputs(expected, outputs) | _axes_of_vectors(expected, rotating, inputs)
    if outputs is None and args[inputs.first[0]].dim() > 2:
        rotated |= coordinates_among(expected, lambda given: _run_original(twin, given, [])[1], inputs, args)
    if init == "fresh":
        _initialise(twin, model, init)
    net = framed(twin, inputs, rules, rotated, args, kept=init == "copy")
    net.report.notes += unclear_outputs(expected, [i in rotated for i in range(len(rotating))], stated=outputs is not None)
    return net


def _axes_of_vectors(expected: Any, rotating: list[bool], inputs: Inputs) -> dict[int, tuple[int, ...]]:
    """Place → axis of the outputs that are coordinates."""
    found = {i: axis_of_vectors(leaf, inputs.first[1]) for i, leaf in enumerate(leaves(expected)) if rotating[i]}
    return {i: (axis,) for i, axis in found.items() if axis is not None}


def _restore_modes(net: RevisedModel, model: nn.Module) -> None:
    """Every module trains or not as its original does, and what was put into one as that does."""
    net.train(model.training)
    modes = {name: module.training for name, module in model.named_modules()}
    for name, module in net.model.named_modules():
        while name not in modes:
            name = name.rpartition(".")[0]
        module.training = modes[name]


def _report(model: nn.Module, net: RevisedModel, plan: Plan, workspace: Workspace) -> RevisionReport:
    """What the dry run has found and changed."""
    functions = workspace.functions.values()
    return RevisionReport(
        rows=plan.met_operations,
        parameters_before=count_parameters(model),
        parameters_after=count_parameters(net),
        resized=plan.resized,
        dropped=plan.dropped,
        learned=plan.learned.shapes(),
        replaced=list(dict.fromkeys(f.__name__ for f in functions if f.ours or f.replacement is not None)),
        kept=list(dict.fromkeys(f.__name__ for f in functions if f.ours is False)),
    )


def _unwrap(model: nn.Module) -> nn.Module:
    """The network inside DataParallel, DistributedDataParallel or torch.compile, also where those sit inside."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; revise takes an nn.Module")
    if isinstance(model, RevisedModel):
        raise InputError("the model is revised already; pass the original")
    if any(is_lazy(p) for p in (*model.parameters(), *model.buffers())):
        raise InputError("the model has lazy layers that have never run; call it once on an example before revising it")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("a TorchScript module has no Python code left to revise; pass the module it was made from")
    model = _inner(model)
    if any(_inner(module) is not module for module in model.modules()):
        model = copy_of(model)
        for name, module in list(model.named_modules()):
            if name and _inner(module) is not module:
                model.set_submodule(name, _inner(module))
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
            raise no_submodule(option, name, names)


def _run_original(model: nn.Module, args: tuple[Any, ...], watch: list[str]) -> tuple[dict[str, Call], Any]:
    """One pass of the original: what some submodules took and returned, and what the whole returns."""
    twin = (model if isinstance(model, BlackBox) else copy_of(model)).eval()
    seen: dict[str, Call] = {}
    for name in watch:

        def hook(module: nn.Module, inputs: Any, kwargs: Any, output: Any, name: str = name) -> None:
            seen[name] = Call(module, inputs, kwargs, output)

        twin.get_submodule(name).register_forward_hook(hook, with_kwargs=True)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            output = twin(*example_for(args, twin))
        except Exception as error:
            raise InputError(
                f"the model itself fails on the example input ({type(error).__name__}: {error}); give one that it takes"
            ) from error
    for name in watch:
        if name not in seen:
            raise InputError(f"remove: '{name}' is never called in a forward pass")
    return seen, output


def _initialise(twin: nn.Module, model: nn.Module, init: str) -> list[str]:
    """Fresh weights, or the original's where shapes allow; returns the names of the copied ones."""
    if init == "fresh":
        for module in twin.modules():
            reset = getattr(module, "reset_parameters", getattr(module, "_reset_parameters", None))
            if isinstance(module, nn.GroupNorm) and module.bias is None:  # which torch before 2.13 does not expect
                nn.init.ones_(module.weight)
            elif callable(reset):
                reset()
        return []
    original = dict(model.named_parameters())
    return [name for name, p in twin.named_parameters() if name in original and original[name].shape == p.shape]
