"""Running a copy of the model on quaternions until nothing about it changes any more."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError, NoRuleError, ReqnnError
from reqnn.nn.quaternion_to_real import quaternion_to_real_hook
from reqnn.revision.cloning import copy_of
from reqnn.revision.inputs import convert
from reqnn.revision.learned import has_learned
from reqnn.revision.module import RevisedModel
from reqnn.revision.parameters import Restart, UsedInParts
from reqnn.revision.plan import Plan, RealBefore
from reqnn.tensor import QuaternionTensor, quaternions
from reqnn.tensor.markers import CutVectors, RemovedTransform
from reqnn.tensor.nested import leaves
from reqnn.tensor.trace import place_of_error


class HeadWanted(Exception):
    """The named places of Quaternion2Real leave the outputs quaternion: the head needs its own."""


class VectorsLost(Exception):
    """An output that should rotate came out real: Quaternion2Real stands on its way.

    Args:
        layer: the submodule that made it, "" if it is not known.
        place: among the outputs.
    """

    def __init__(self, layer: str = "", place: int = 0) -> None:
        super().__init__(layer)
        self.layer, self.place = layer, place


def dry_run(
    net: RevisedModel, plan: Plan, args: tuple[Any, ...], rotating: list[bool], keep: set[str], model: nn.Module
) -> None:
    """Run the copy on quaternions until nothing changes any more.

    Args:
        net: the copy.
        plan: what is found out about it.
        args: the example.
        rotating: for each output whether it is coordinates, which rotate.
        keep: layers that must not become real, since coordinates come from them.
        model: the original.
    """
    watchers = _watch(net, plan)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        with _located(plan):
            _until_settled(net, plan, args, lambda output: _settle_outputs(net, plan, output, rotating, keep))
        used = set(plan.learned.used)
        if plan.unvisited() or _asks_for_mode(net.model):
            _dry_run_training(net, plan, args, model)
        plan.learned.forget_unused(used | plan.learned.used)
    _fix_heads(net, plan)
    net.learns = any(has_learned(m) or hasattr(m, "kernel_over_vectors") for m in net.model.modules())
    for watcher in [*watchers, *([] if net.learns else plan.handles)]:
        watcher.remove()


def _fix_heads(net: RevisedModel, plan: Plan) -> None:
    """Quaternion2Real stands from now on where the dry run has found the heads, whatever shapes arrive."""
    mixed = {met.layer for met in plan.met_operations if met.row == "Convolution" and met.kind == "quaternion"}
    heads = {name: net.model.get_submodule(name) for name in plan.heads}
    if any(name in mixed or not isinstance(module, nn.Linear) for name, module in heads.items()):
        return
    for module in heads.values():
        module.register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
    net.auto_real = False


def _until_settled(net: RevisedModel, plan: Plan, args: tuple[Any, ...], settle: Callable[[Any], None]) -> None:
    for _ in range(2 * len(list(net.model.parameters())) + 2 * len(list(net.model.modules())) + 10):
        plan.begin()
        try:
            return settle(net.run(net.context(plan), example_for(args, net.model), {}))
        except Restart:
            continue
        except RuntimeError as error:
            if plan.readings > 1 and not isinstance(error, NoRuleError):
                raise NoRuleError(
                    f"a feature gives {plan.readings} numbers where it becomes real, and the code behind that takes fewer "
                    f"({error}); the option readings=1 of the rule set gives one",
                    "features read in a frame",
                ) from error
            if plan.reshaped and not isinstance(error, NoRuleError):
                raise NoRuleError(
                    f"the parameter {plan.reshaped[-1]} multiplies coordinates and was re-sized, but the code reshapes it "
                    f"to sizes written out by hand ({error})",
                    "a reshaped parameter",
                ) from error
            raise
    raise AssertionError("the dry run does not settle")


@contextmanager
def _located(plan: Plan) -> Iterator[None]:
    """What fails where the original network ran is an operation without a rule; the error says which, and where."""
    try:
        yield
    except NoRuleError as error:
        if error.operation or type(error) is not NoRuleError:
            raise
        raise error.located(*place_of_error(error, plan.names)) from None
    except InputError as error:  # of a function of ours that the network calls
        raise NoRuleError(str(error)).located(*place_of_error(error, plan.names)) from error
    except (ReqnnError, RealBefore, HeadWanted, VectorsLost, UsedInParts):
        raise
    except Exception as error:
        reason = f"it fails on quaternion features ({type(error).__name__}: {error})"
        if "TorchScript" in reason:
            reason = "code under torch.jit.script takes plain tensors only; call the plain Python function"
        raise NoRuleError(reason).located(*place_of_error(error, plan.names)) from error


def _asks_for_mode(model: nn.Module) -> bool:
    """Whether the network's own code reads `self.training`: it may do something else then (draw a latent, add noise)."""
    classes = {base for module in model.modules() for base in type(module).__mro__}
    methods = [f for base in classes if base.__module__.split(".")[0] not in ("torch", "reqnn") for f in vars(base).values()]
    return any("training" in f.__code__.co_names for f in methods if isinstance(f, FunctionType))


def _dry_run_training(net: RevisedModel, plan: Plan, args: tuple[Any, ...], model: nn.Module) -> None:
    """Layers and lines that eval mode does not reach (auxiliary heads, a latent that is drawn), at least two clouds."""
    args = tuple(x.repeat_interleave(2, 0) if isinstance(x, Tensor) and x.dim() > 1 and len(x) == 1 else x for x in args)
    met, heads = list(plan.met_operations), list(plan.heads)
    state = {name: value.clone() for name, value in net.model.state_dict().items()}
    net.model.train()
    try:
        with _located(plan):
            _until_settled(net, plan, args, lambda output: None)
    except NoRuleError as error:
        if error.__cause__ is None or _trains(model, args):
            raise
    net.model.eval()
    now = net.model.state_dict()
    net.model.load_state_dict({k: v for k, v in state.items() if k in now and now[k].shape == v.shape}, strict=False)
    plan.met_operations = [*met, *(row for row in plan.met_operations if row not in met)]
    plan.heads = [*heads, *(name for name in plan.heads if name not in heads)]


def _trains(model: nn.Module, args: tuple[Any, ...]) -> bool:
    """Whether the original takes these inputs in training mode."""
    try:
        copy_of(model).train()(*example_for(args, model))
    except Exception:
        return False
    return True


def _watch(net: RevisedModel, plan: Plan) -> list[Any]:
    """Hooks for the dry run: leaves of the real part are noted, modules with a rule of their own are swapped."""
    handles = []
    for name, module in net.model.named_modules():
        if name:
            handles.append(module.register_forward_hook(_maker(plan, name, net.inputs.first[1])))
        if not list(module.children()):
            handles.append(module.register_forward_pre_hook(_real_leaf_watcher(plan, name)))
        build = net.rules.find_module(type(module))
        if build is not None and name:
            handles.append(module.register_forward_pre_hook(_swapper(net, plan, name, build)))
    return handles


def _maker(plan: Plan, name: str, axis: int) -> Callable[..., None]:
    def remember(module: nn.Module, args: Any, output: Any) -> None:
        real = [leaf for leaf in leaves(output) if type(leaf) is Tensor and leaf.is_floating_point() and leaf.dim() == 3]
        if any(leaf.shape[axis % 3] == 3 for leaf in real):
            plan.returned_three.append(name)
        plan.makers |= {id(leaf): (weakref.ref(leaf), name) for leaf in leaves(output) if type(leaf) is Tensor}

    return remember


def _swapper(net: RevisedModel, plan: Plan, name: str, build: Callable[..., nn.Module]) -> Callable[..., None]:
    def swap(module: nn.Module, args: tuple[Any, ...]) -> None:
        operands = list(quaternions(args))
        if operands:
            replacement = build(module, operands[0])
            if replacement is not None:
                net.model.set_submodule(name, replacement)
                plan.visited |= {f"{name}.{inner}" if inner else name for inner, _ in replacement.named_modules()}
                raise Restart

    return swap


def _real_leaf_watcher(plan: Plan, name: str) -> Callable[..., None]:
    def watch(module: nn.Module, args: tuple[Any, ...]) -> None:
        plan.visited.add(name)
        linear = isinstance(module, nn.Linear) or type(module).__name__ == "Linear"  # that of PyTorch Geometric, too
        if (linear or isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d))) and args and type(args[0]) is Tensor:
            axis = -1 if linear else -len(getattr(module, "kernel_size", ())) - 1
            plan.match(module, args[0].shape[axis])
        elif isinstance(module, nn.modules.batchnorm._BatchNorm) and args and type(args[0]) is Tensor and args[0].dim() > 1:
            plan.match(module, args[0].shape[1])
        seen = any(met.layer == name and met.kind == "quaternion" for met in plan.met_operations)
        if not seen and not list(quaternions(args)):
            plan.met_module(name, module)

    return watch


def _settle_outputs(net: RevisedModel, plan: Plan, output: Any, rotating: list[bool], keep: set[str]) -> None:
    """Quaternion outputs with no meaning yet: coordinates, where the original returns those, else real numbers."""
    found = leaves(output)
    wanted = rotating if len(rotating) == len(found) else [False] * len(found)
    for place, (leaf, rotates) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(leaf, CutVectors):
            raise leaf.error
        if place in net.back and isinstance(leaf, QuaternionTensor):
            raise NoRuleError(
                "an output should be matrices in the PCA frame, but is vectors or features; name the submodule that makes it "
                "in coordinates=",
                "the model's output",
            )
        if rotates and place not in net.back and not isinstance(leaf, (QuaternionTensor, RemovedTransform)):
            raise VectorsLost(plan.maker_of(leaf), place)
        if rotates and _is_loose(leaf):
            plan.output_vectors(leaf)
            raise NoRuleError(
                f"an output should be coordinates, but the layer that makes it ({leaf.source or 'unknown'}) has no 3·V output "
                "channels; name the layer where real features begin (to_real=), or which outputs are coordinates (outputs=)",
                "the model's output",
            )
    loose = [leaf for leaf, rotates in zip(found, wanted, strict=True) if not rotates and _is_loose(leaf)]
    if not loose or any(type(leaf) is Tensor and leaf.is_floating_point() for leaf in found):
        return  # side outputs, such as global features beside logits: their squared norms are returned
    if not net.auto_real and not any(wanted):
        raise HeadWanted
    for q in loose:
        if q.source is not None and q.source not in keep:
            plan.real_before(q.source)


def _is_loose(leaf: Any) -> bool:
    """Whether an output is quaternions that are no coordinates."""
    return isinstance(leaf, QuaternionTensor) and (leaf.axis is None or "f" in leaf.vectors)


def example_for(args: tuple[Any, ...], model: nn.Module) -> tuple[Any, ...]:
    """Example inputs on the device and in the dtype of the model."""
    reference = next((p for p in model.parameters() if p.is_floating_point()), None)
    return args if reference is None else convert(args, reference.device, reference.dtype)
