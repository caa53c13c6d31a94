"""Trials that start from the weights of another: order and settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.harness.trial import Trial
from reqnn.train.checkpoint import STATE
from reqnn.train.config import TrainConfig, load_config


def run_folder(runs: str | Path, one: Trial) -> Path:
    """The folder of a trial's run, by group and key."""
    return Path(runs) / Path(one.group).name / one.stem


def in_order(trials: Sequence[Trial], runs: str | Path) -> list[Trial]:
    """Each trial after the one that it waits for."""
    found: list[Trial] = []
    for one in trials:
        before = in_order([one.after], runs) if one.after is not None and waits(one, runs) else []
        found += [some for some in (*before, one) if some not in found]
    return found


def waits(one: Trial, runs: str | Path) -> bool:
    """Whether a trial has not started, and the one whose weights it starts from is not trained."""
    return one.after is not None and not _begun(run_folder(runs, one)) and not _finished(run_folder(runs, one.after))


def run_settings(one: Trial, runs: str | Path) -> TrainConfig:
    """The settings of a trial's run, with its folder and the folder of the weights that it starts from."""
    folder, start = run_folder(runs, one), one.config.start_from
    if one.after is not None:
        start = load_config(folder / "config.json").start_from if _begun(folder) else str(run_folder(runs, one.after))
        if not _begun(folder):  # settings of a run that was stopped before its first checkpoint may name another folder
            (folder / "config.json").unlink(missing_ok=True)
    return replace(one.config, out=str(folder), start_from=start)


def _begun(folder: Path) -> bool:
    return (folder / STATE).exists()


def _finished(folder: Path) -> bool:
    report = folder / "metrics.json"
    return report.exists() and bool(json.loads(report.read_text(encoding="utf-8")).get("finished"))
