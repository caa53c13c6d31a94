"""The passes of an audit: a reference, then the same clouds rotated, reordered, alone, exchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from reqnn import quaternion
from reqnn.auditing.layers import Layer, merged_rows
from reqnn.auditing.report import AuditReport
from reqnn.errors import InputError, NoRuleError
from reqnn.revision.clouds import Clouds, cube_rotations, dealt_out, read_clouds
from reqnn.revision.watched import WatchedCopy
from reqnn.version import __version__

_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
_LEAST_SPREAD = 1e-6
_IN_TRAINING = 4  # passes with random rotations, and with the cube's, in training mode: only the statistics differ there
_MOST_ALONE = 8  # clouds that are also run by themselves


def audit(
    net: nn.Module,
    points: Any,
    rotations: int = 64,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    *,
    vector_axis: int | Sequence[int | None] | None = None,
    scalars: int = 0,
    permutations: int = 4,
    tolerance: float | None = None,
    modes: Sequence[str] = ("eval", "train"),
) -> AuditReport:
    """Measure for each layer whether it is rotation-equivariant or -invariant, and permutation-equivariant or -invariant.

        max |f(T x) − T f(x)| / rms f(x),    T: rotations (uniform on SO(3) and the 24 of the cube, one per cloud),
                                                orders of the points, a cloud alone instead of in its batch

    A copy of the network runs in `dtype` without gradients or dropout. If normalisation statistics were never updated, the
    copy gets those of the audited clouds. Batches of fewer than four clouds are filled up with stretched and noisy copies.
    Every layer's output is held in memory once: keep the batch small.

    Args:
        net: any `nn.Module`. Quaternion features must rotate, real ones of a revised network must not change; in other
            networks real features may do either (rotate on an axis of size 3).
        points: the inputs of the network, a tuple if there are several; (B, N, 3), (B, 3, N) or (N, 3).
        rotations: number of random rotations, dealt out to the clouds; in training mode at most 4 passes of these, of the
            cube's and of the orders.
        seed: for rotations, orders, and random numbers of the network.
        dtype: of the copy.
        vector_axis: the axis that holds the vectors; known for a revised network.
        scalars: number of trailing rotation-invariant channels; known for a revised network.
        permutations: number of passes with random orders, drawn per cloud.
        tolerance: the largest error allowed; default: 1e-9 in float64, 1e-4 in float32.
        modes: "eval", "train" or both.

    Returns:
        An `AuditReport`: rows, errors, `ok`, the first layer that breaks each property.

    Raises:
        InputError: an argument is invalid, or the network itself fails on the points.
    """
    tolerance = _check(net, rotations, permutations, dtype, tolerance, modes)
    generator = torch.Generator().manual_seed(seed)
    clouds = read_clouds(net, points, vector_axis, scalars, dtype, generator)
    drawn = dealt_out(quaternion.random_matrix(rotations, generator, torch.float64), clouds.count)
    cube = dealt_out(cube_rotations(), clouds.count)
    orders = [clouds.random_orders(generator) for _ in range(permutations)]

    audited = WatchedCopy(net, dtype, seed)
    audited.calibrate(clouds.args)
    finished, notes = [], _notes(audited, clouds)
    for mode in sorted(set(modes)):  # eval first: training moves the statistics
        few = slice(None) if mode == "eval" else slice(_IN_TRAINING)
        measured = _Mode(mode, audited, clouds, tolerance)
        if measured.reference(notes):
            for matrices in drawn[few] + cube[few]:
                measured.compare(clouds.rotated(matrices), Layer.compare, "rotation", matrices)
            for order in orders[few]:
                measured.compare(clouds.reordered(order), Layer.compare, "order", order)
            measured.compare(clouds.other, Layer.exchange)
            if mode == "eval":
                measured.separate(notes)
            finished.append(measured)
    if not finished:
        raise InputError(f"the network runs in no mode. {notes[-1]}")
    settings = {
        "rotations": rotations,
        "permutations": permutations,
        "seed": seed,
        "dtype": str(dtype).removeprefix("torch."),
        "modes": [measured.mode for measured in finished],
        "clouds": clouds.count,
        "points": clouds.sizes,
        "versions": {"torch": torch.__version__, "reqnn": __version__},
    }
    rows = merged_rows({m.mode: m.layers for m in finished})
    stopped = next((str(m.stopped) for m in finished if m.stopped is not None), "")
    return AuditReport(rows, tolerance, max(_LEAST_SPREAD, 10 * tolerance), settings, notes, stopped)


class _Mode:
    """All passes in one mode."""

    def __init__(self, mode: str, audited: WatchedCopy, clouds: Clouds, tolerance: float) -> None:
        self.mode, self.audited, self.clouds, self.tolerance = mode, audited, clouds, tolerance
        self.layers: dict[str, Layer] = {}
        self.stopped: NoRuleError | None = None

    def reference(self, notes: list[str]) -> bool:
        """The clouds as given; False if this mode cannot be run."""
        self.audited.net.train(self.mode == "train")

        def store(name: str, output: Any) -> None:
            self.layers[name] = Layer(name, output, self.clouds, self.tolerance, free=not self.audited.revised)

        try:
            self._run(self.clouds.args, store)
        except Exception as error:
            if self.mode == "train":
                notes.append(f"training mode was left out: the network fails in it ({type(error).__name__}: {error})")
                return False
            raise InputError(
                f"the network itself fails on these points in {self.audited.dtype} ({type(error).__name__}: {error}); "
                "give points that it takes, or another dtype="
            ) from error
        if self.stopped is not None:
            name = self.stopped.layer or "(model)"
            self.layers[name] = Layer(name, None, self.clouds, self.tolerance, broken=True)
        return True

    def compare(self, args: tuple[Any, ...], measure: Callable[..., None], *how: Any) -> None:
        """Run on changed clouds, and `measure` each layer."""

        def visit(name: str, output: Any) -> None:
            if name not in self.layers:  # the reference did not call it
                self.layers[name] = Layer(name, None, self.clouds, self.tolerance, broken=True)
            else:
                measure(self.layers[name], output, *how)

        self._run(args, visit)

    def separate(self, notes: list[str]) -> None:
        """Each cloud alone."""
        if self.clouds.batch is None:
            return
        for index in range(min(self.clouds.count, _MOST_ALONE)):

            def compare(name: str, output: Any, index: int = index) -> None:
                base, _, call = name.partition("#")
                looped = f"{base}#{(int(call or 1) - 1) * self.clouds.count + index + 1}"  # a loop over the clouds
                others = [self.layers[n] for n in (looped.removesuffix("#1"),) if n in self.layers and n != name]
                if name in self.layers:
                    self.layers[name].separate(output, index, others)

            try:
                self._run(self.clouds.alone(index), compare)
            except (ValueError, RuntimeError, IndexError) as error:
                notes.append(f"batch independence was not measured: a cloud alone fails ({type(error).__name__}: {error})")
                return

    def _run(self, args: tuple[Any, ...], visit: Callable[[str, Any], None]) -> None:
        try:
            self.audited.run(args, visit)
        except NoRuleError as error:
            self.stopped = error


def _check(
    net: Any, rotations: int, permutations: int, dtype: torch.dtype, tolerance: float | None, modes: Sequence[str]
) -> float:
    """Raise `InputError` for invalid arguments; return the tolerance."""
    if not isinstance(net, nn.Module):
        raise InputError(f"net is a {type(net).__name__}; audit takes an nn.Module")
    for name, count in (("rotations", rotations), ("permutations", permutations)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name} is {count!r}; a whole number of at least 1 is needed")
    if isinstance(modes, str) or not modes or set(modes) - {"eval", "train"}:
        raise InputError(f"modes is {modes!r}; give a tuple of 'eval' and 'train'")
    if dtype not in _TOLERANCES and (tolerance is None or not getattr(dtype, "is_floating_point", False)):
        raise InputError(f"dtype is {dtype}; torch.float64 or torch.float32 is needed, or a tolerance= for another float")
    tolerance = _TOLERANCES[dtype] if tolerance is None else tolerance
    if not (tolerance >= 0 and math.isfinite(tolerance)):
        raise InputError(f"tolerance is {tolerance}; a number of at least 0 is needed")
    return float(tolerance)


def _notes(audited: WatchedCopy, clouds: Clouds) -> list[str]:
    notes = []
    if clouds.made:
        notes.append(f"few clouds were given; {clouds.made} more, stretched and with noise, were made from them")
    if audited.calibrated:
        notes.append(
            f"the statistics of {audited.calibrated} normalisation layers were never updated; in the audited copy they "
            "are those of these clouds"
        )
    if audited.calibration_error:
        notes.append(f"normalisation statistics were never updated and could not be set ({audited.calibration_error})")
    if clouds.batch is None:
        notes.append("the input has no batch axis: batch independence does not apply")
    return notes
