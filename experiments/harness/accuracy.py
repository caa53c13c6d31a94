"""Accuracy of a trained network upright and on the paper's rotated test set: the result of a trial."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn

from experiments.harness.ambiguity import count_ambiguity, explain_changes
from reqnn import data
from reqnn.data.dataset import PointClouds
from reqnn.data.rotated_test_set import RotatedTestSet
from reqnn.provenance import provenance
from reqnn.revision.report import count_parameters
from reqnn.train.config import TrainConfig
from reqnn.train.evaluation import measure
from reqnn.train.prediction import predict
from reqnn.train.run import START, Run
from reqnn.train.weights import weights_checksum

BATCH = 32


def load_test_set(config: TrainConfig, limit: int | None = None) -> PointClouds:
    """The test clouds of a run's data set, or a fixed choice of `limit` of them."""
    clouds = data.load(config.data, "test", points=config.points, root=config.root)
    if limit is None or limit >= len(clouds):
        return clouds
    order = torch.randperm(len(clouds), generator=torch.Generator().manual_seed(0))
    return clouds.subset(order[:limit].sort().values)


def rotated_logits(model: nn.Module, rotated: RotatedTestSet) -> Tensor:
    """The logits of a network on every shape in each of its rotations: (shapes, copies, classes)."""
    parts = [predict(model, points, BATCH) for points, _, _ in rotated.batches(16 * BATCH)]
    return torch.cat(parts).unflatten(0, (len(rotated.clouds), rotated.copies))


def rotation_test(run: Run, clouds: PointClouds, copies: int = 10, seed: int = 0) -> dict[str, Any]:
    """Accuracy upright and rotated, consistency and, for a REQNN, the causes of changed answers; for JSON."""
    if torch.cuda.is_available():
        run.model.cuda()
    upright_set, rotated_set = (data.rotated_test_set(clouds, p, c, seed) for p, c in (("NR", 1), ("AR", copies)))
    upright = measure(rotated_logits(run.model, upright_set), clouds, "NR", seed)
    logits = rotated_logits(run.model, rotated_set)
    rotated = measure(logits, clouds, "AR", seed)
    found: dict[str, Any] = {
        "upright": upright.accuracy,
        "rotated": rotated.accuracy,
        "consistency": 1 - rotated.inconsistent,
        "logit_change": rotated.logit_change,
        "logit_spread": rotated.logit_spread,
        "upright_class_mean": upright.class_accuracy,
        "rotated_class_mean": rotated.class_accuracy,
        "upright_per_class": upright.per_class,
        "rotated_per_class": rotated.per_class,
    }
    if run.config.equivariant:
        found["changed"] = explain_changes(run.model, run.config, rotated_set, logits, rotated.changed)
        found["ambiguity"] = count_ambiguity(clouds.points, run.config)
    return found


def run_facts(run: Run) -> dict[str, Any]:
    """The facts about a run in its result: settings, size, time, selection, versions; no local paths."""
    config = run.config
    best, last = run.row, run.metrics.get("last") or {}
    facts = {
        "parameters": count_parameters(run.model),
        "epochs": config.epochs,
        "seconds": last.get("seconds"),
        "best_epoch": best.get("epoch"),
        "validation_accuracy": best.get("validation_accuracy"),
        "selected": best.get("epoch") == run.metrics.get("best_epoch", best.get("epoch")),
        "training_clouds": run.metrics.get("training_clouds"),
        "validation_clouds": run.metrics.get("validation_clouds"),
        "seed": config.seed,
        "weights": weights_checksum(run.model),
        "config": config.without_folders(),
        "tested_with": provenance(),
    }
    for name, file in (("trained_with", "versions.json"), ("began_with", START)):
        if run.folder is not None and (run.folder / file).exists():
            facts[name] = json.loads((run.folder / file).read_text(encoding="utf-8"))
    return facts
