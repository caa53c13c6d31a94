"""Trials that begin with the weights of another: what is trained first, and with what a run began."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.harness.trial import Trial
from reqnn.train.checkpoint import STATE
from reqnn.train.config import TrainConfig, load_config


def run_folder(runs: str | Path, one: Trial) -> Path:
    """Where a trial is trained: trials of one key in several groups have a folder each."""
    return Path(runs) / Path(one.group).name / one.stem


def in_order(trials: Sequence[Trial], runs: str | Path) -> list[Trial]:
    """Each trial behind the one that it waits for."""
    found: list[Trial] = []
    for one in trials:
        before = in_order([one.after], runs) if one.after is not None and waits(one, runs) else []
        found += [some for some in (*before, one) if some not in found]
    return found


def waits(one: Trial, runs: str | Path) -> bool:
    """Whether a trial has yet to begin, and the one whose weights it begins with has yet to be trained."""
    return one.after is not None and not _begun(run_folder(runs, one)) and not _finished(run_folder(runs, one.after))


def run_settings(one: Trial, runs: str | Path) -> TrainConfig:
    """The settings of a trial's run: where it is written, and the folder of the weights that it begins with."""
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
