"""Export a run as pretrained weights: small, tested upright and rotated, audited, with a model card."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.harness.accuracy import load_test_set, rotation_test, run_facts
from experiments.harness.results import SEED
from experiments.weights.card import card_markdown
from reqnn.auditing import audit
from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.pretrained import loading
from reqnn.train import run as run_files
from reqnn.train.checkpoint import write_json, write_text
from reqnn.train.prediction import predict
from reqnn.train.run import Run, build_network, load_run
from reqnn.train.weights import model_tensors, save_tensors, weights_checksum

LARGEST = 12_000_000
"""Bytes of a file that the repository takes."""

LOSS = 0.0005
"""How much accuracy upright the storage in half precision may cost."""

AUDITED, ROTATIONS, PERMUTATIONS = 4, 4, 2


def export_weights(
    run: str | Path,
    name: str,
    folder: str | Path | None = None,
    *,
    options: dict[str, Any] | None = None,
    half: bool = False,
    replace_existing: bool = False,
    clouds: PointClouds | None = None,
    copies: int = 10,
    tested: str | Path | None = None,
) -> Path:
    """Write NAME.safetensors and its model card, NAME.json and NAME.md, with test results of the written file.

    Args:
        run: a run's folder (its best weights) or a weights file.
        folder: default: the package's own, where `reqnn.load(name)` finds it.
        options: arguments of the network that differ from training; saved with the weights.
        half: store the weights, not the statistics, as float16; refused if that costs accuracy.
        clouds: test clouds. Default: the test split of the run's data set.
        copies: rotations per test shape.
        tested: a result of `paper table4` or `compare` for the same weights, to use instead of a new test.
    """
    target = Path(folder or run_files.WEIGHTS) / f"{name}.safetensors"
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise InputError(
            f"{name!r} is no name for weights; take small letters, digits, dots and hyphens: dgcnn.paper.modelnet40"
        )
    if target.exists() and not replace_existing:
        raise InputError(f"{target} exists; --replace takes its place, another name leaves it")
    trained = load_run(run, options=options)
    if trained.config.task != "classification":
        raise InputError(f"{run} is a run for {trained.config.task}; only classifiers can be exported")
    clouds = load_test_set(trained.config) if clouds is None else clouds
    if clouds.classes != trained.classes:
        raise InputError(f"{run} was trained on other classes than those of {clouds.name}; test it on its own data set")
    target.parent.mkdir(parents=True, exist_ok=True)
    candidate = target.with_name(f".{name}.candidate.safetensors")
    try:
        _save(trained, candidate, half)
        stored = load_run(candidate)
        if half:
            _check_half(trained, stored, clouds)
        found = rotation_test(stored, clouds, copies, SEED) if tested is None else _read_test(tested, stored, clouds, copies)
        card = _card(trained, stored, name, candidate, half, clouds, copies, found)
        candidate.replace(target)
    finally:
        candidate.unlink(missing_ok=True)
    write_json(target.with_suffix(".json"), card)
    write_text(target.with_suffix(".md"), card_markdown(card))
    return target


def _save(run: Run, path: Path, half: bool) -> None:
    """Write weights without local paths; `InputError` if they are too large."""
    weights = {name for name, _ in run.model.named_parameters()}
    tensors = {key: _halved(value) if half and key in weights else value for key, value in model_tensors(run.model).items()}
    save_tensors(path, tensors, {"config": run.config.without_folders(), "classes": run.classes, "log": run.row})
    size = path.stat().st_size
    if size > LARGEST:
        advice = "train a narrower network" if half else "--half takes half of it"
        raise InputError(f"the weights take {size / 1e6:.1f} MB; at most {LARGEST / 1e6:.0f} MB ship: {advice}")


def _halved(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    small = tensor.to(torch.float16)
    if not bool(small.isfinite().all()):
        raise InputError(f"a weight is {tensor.abs().max():.2g}, beyond the range of half precision; export without --half")
    return small


def _check_half(trained: Run, stored: Run, clouds: PointClouds) -> None:
    before, after = (
        (predict(run.model, clouds.points).argmax(1) == clouds.labels).double().mean().item() for run in (trained, stored)
    )
    if before - after > LOSS:
        raise InputError(
            f"half precision costs accuracy: {100 * before:.2f} % before, {100 * after:.2f} % after; export without --half"
        )


def _read_test(file: str | Path, stored: Run, clouds: PointClouds, copies: int) -> dict[str, Any]:
    """The test in a result file; `InputError` unless it is of these weights, options and clouds."""
    try:
        result: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
        was = {"weights": result["weights"], "options": result["config"]["options"]}
        was |= {name: result["test"][name] for name in ("copies", "seed", "fingerprint")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--tested {file} is no result of these weights that can be read ({error!r})") from error
    options = json.loads(json.dumps(stored.config.options))  # as JSON has them: lists, no tuples
    now = {"weights": weights_checksum(stored.model), "options": options, "copies": copies, "seed": SEED}
    now["fingerprint"] = clouds.fingerprint()
    other = [f"{name} {was[name]!r}, here {now[name]!r}" for name in was if was[name] != now[name]]
    if other:
        raise InputError(f"--tested {file} is the result of another test: {'; '.join(other)}. Leave --tested out to test anew")
    return result


def _card(
    trained: Run, stored: Run, name: str, path: Path, half: bool, clouds: PointClouds, copies: int, found: dict[str, Any]
) -> dict[str, Any]:
    about = run_facts(trained)
    kept = ("upright", "rotated", "consistency", "logit_change", "logit_spread", "upright_class_mean", "rotated_class_mean")
    shown = ("best_epoch", "validation_accuracy", "selected", "training_clouds", "validation_clouds", "seconds", "seed")
    return {
        "name": name,
        **loading.facts(stored),
        "test": {"shapes": len(clouds), "copies": copies, **{key: found[key] for key in kept}},
        "changed": found.get("changed", []),
        "ambiguity": found.get("ambiguity"),
        "audit": _audit(stored, clouds),
        "training": {key: about[key] for key in shown},
        "began_with": about.get("began_with"),
        "config": about["config"],
        "storage": "float16" if half else "float32",
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "trained_with": about.get("trained_with"),
        "tested_with": found.get("tested_with", about["tested_with"]),
    }


def _audit(run: Run, clouds: PointClouds) -> dict[str, Any]:
    """Audit every layer separately, in float64, with the stored weights."""
    config = replace(run.config, rule_options={**run.config.rule_options, "fused": False})
    network = build_network(config, len(run.classes))
    network.load_state_dict(run.model.cpu().state_dict())
    report = audit(network, clouds.points[:AUDITED], rotations=ROTATIONS, permutations=PERMUTATIONS, vector_axis=-1)
    return {
        "ok": report.ok,
        "rotation_error": report.rotation_error,
        "permutation_error": report.permutation_error,
        "spread": report.spread,
        "layers": len(report.rows),
        "clouds": min(AUDITED, len(clouds)),
        "rotations": ROTATIONS,
        "permutations": PERMUTATIONS,
        "dtype": "float64",
    }
