"""A copy of a network to measure: in another dtype, without dropout, with statistics, its layers watched."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from reqnn.errors import NoRuleError
from reqnn.revision.cloning import copy_of
from reqnn.revision.in_double import InDouble
from reqnn.revision.module import RevisedModel
from reqnn.tensor import quaternions

OUTPUT = "(output)"
Visit = Callable[[str, Any], None]

_DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
_DRAWS = {"rand", "randn", "rand_like", "randn_like", "uniform_", "normal_"}
_DRAWS_APART = {"randperm", "multinomial", "bernoulli", "bernoulli_"}


class _PlainPass(TorchFunctionMode):
    """Functional dropout is the identity; all `clouds` of a batch get the same random numbers (the grids of AtlasNet)."""

    def __init__(self, clouds: int) -> None:
        super().__init__()
        self.clouds = clouds
        self.draws_apart = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.rstrip("_") in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention":
            args, kwargs = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args, {**kwargs}
            kwargs.pop("dropout_p", None)
        result = func(*args, **kwargs)
        self.draws_apart |= name in _DRAWS_APART
        if name in _DRAWS and type(result) is Tensor and result.dim() > 1 and result.shape[0] == self.clouds:
            result.detach().copy_(result.detach()[:1].clone())
        return result


class WatchedCopy:
    """A copy of a network; the user's own is left as it is.

    Attributes:
        calibrated: how many normalisation layers had never updated their statistics.
        calibration_error: why these could not be set, or "".
        draws_elsewhere: whether a pass drew random numbers that may be others for each cloud of a batch: from numpy or Python,
            or a mask or an order, perhaps in a loop.
    """

    def __init__(self, net: nn.Module, dtype: torch.dtype, seed: int) -> None:
        self.net: Any = copy_of(getattr(net, "_orig_mod", net)).to(dtype)
        self.revised = isinstance(self.net, RevisedModel)
        self.dtype, self.seed = dtype, seed
        self.calibrated, self.calibration_error = 0, ""
        self.draws_elsewhere = False
        self._visit: Visit | None = None
        self._calls: Counter[str] = Counter()
        self.raw_output: Any = None  # of a revised network, before its vectors became coordinates
        self._fresh: list[Any] = [module for module in self.net.modules() if _never_updated(module)]
        for module in self.net.modules():
            _silence(module)
        self._watch()

    def run(self, args: tuple[Any, ...], visit: Visit | None = None) -> Any:
        """One pass; `visit` gets the name and output of each layer, in the order of execution, and of the whole."""
        self._visit, self.raw_output = visit, None
        self._calls.clear()
        args = tuple(x.clone() if isinstance(x, Tensor) else x for x in args)  # the network may write into them
        clouds = next((x.shape[0] for x in args if isinstance(x, Tensor) and x.dim() > 2), 0)
        double = InDouble() if self.dtype == torch.float64 else nullcontext()
        with torch.no_grad(), self._own_random_state(), _PlainPass(clouds) as plain, double:
            output = self.net(*args)
        self.draws_elsewhere |= plain.draws_apart
        if visit is not None:
            with torch.no_grad():
                visit(OUTPUT, [[*quaternions(self.raw_output)], output])
        return output

    def use_statistics_of_the_batch(self) -> None:
        """Eval mode, but normalisation statistics that were never updated are those of the batch that runs."""
        self.net.eval()
        for module in self._fresh:
            module.train()

    def run_to_calibrate(self, args: tuple[Any, ...]) -> Any:
        """One pass that sets statistics that were never updated to those of its batch.

        Without them an untrained network is nearly constant in eval mode.
        """
        before = {module: module.momentum for module in self._fresh}
        self.use_statistics_of_the_batch()
        for module in self._fresh:
            module.momentum = 1.0
        try:
            return self.run(args)
        finally:
            for module, momentum in before.items():
                module.momentum = momentum

    def calibrate(self, args: tuple[Any, ...]) -> None:
        """Set statistics that were never updated; `calibrated` and `calibration_error` say what came of it."""
        if not self._fresh:
            return
        try:
            self.run_to_calibrate(args)
            self.calibrated = len(self._fresh)
        except NoRuleError:
            self.calibrated = len(self._fresh)  # those before the place where it stops; the reference pass reports that
        except (ValueError, RuntimeError) as error:
            self.calibration_error = f"{type(error).__name__}: {error}"

    @contextmanager
    def _own_random_state(self) -> Iterator[None]:
        """Every pass draws the same random numbers; the caller's generators, numpy's and Python's too, are not changed."""
        before = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002 - the one that networks draw from
        np.random.seed(self.seed)  # noqa: NPY002
        random.seed(self.seed)
        seeded = _other_generators()
        cuda = sorted({t.device.index or 0 for t in self.net.parameters() if t.is_cuda})
        with torch.random.fork_rng(devices=cuda):
            torch.default_generator.manual_seed(self.seed)
            for index in cuda:
                torch.cuda.default_generators[index].manual_seed(self.seed)
            try:
                yield
            finally:
                self.draws_elsewhere |= _other_generators() != seeded
                np.random.set_state(before[0])  # noqa: NPY002
                random.setstate(before[1])

    def _watch(self) -> None:
        root = self.net.model if isinstance(self.net, RevisedModel) else self.net
        for name, module in root.named_modules():
            if name and not _merely_holds(module):
                module.register_forward_hook(self._hook(name))
        if self.revised and not isinstance(root, torch.jit.ScriptModule):  # which takes no hooks
            root.register_forward_hook(self._output_hook)

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if self._visit is not None:
                self._calls[name] += 1
                calls = self._calls[name]
                with torch._C.DisableTorchFunction():  # comparisons use plain tensors: skip the mode
                    self._visit(name if calls == 1 else f"{name}#{calls}", output)

        return hook

    def _output_hook(self, module: nn.Module, args: Any, output: Any) -> None:
        self.raw_output = output


def _other_generators() -> tuple[Any, ...]:
    numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return numpy["state"]["key"].tobytes(), numpy["state"]["pos"], random.getstate()


def _silence(module: nn.Module) -> None:
    """Switch off the dropout of a module."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        module.p = 0.0
    elif isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        module.dropout = 0.0


def _merely_holds(module: nn.Module) -> bool:
    """Whether a module only holds others, so that its output is that of the last of them."""
    if isinstance(module, (nn.DataParallel, torch.jit.ScriptModule, RevisedModel)):
        return True
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _never_updated(module: nn.Module) -> bool:
    """Whether running statistics still have their initial values."""
    if isinstance(module, torch.jit.ScriptModule):
        return False
    count = getattr(module, "num_batches_tracked", None)
    if not isinstance(count, Tensor) or bool(count) or not hasattr(module, "momentum"):
        return False
    running = [value for name, value in module.named_buffers(recurse=False) if name.startswith("running_")]
    return bool(running) and all(bool((value == value.flatten()[0]).all()) for value in running)
