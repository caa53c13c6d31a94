"""Results of trials on disk: one JSON file and one log each, checked against the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.harness.files import write_page, write_result_file
from experiments.harness.trial import Trial, differing
from reqnn.errors import InputError
from reqnn.train.config import TrainConfig, config_from_dict, load_config
from reqnn.train.run import START

SEED = 0
"""Of the rotations of the test set."""


def result_path(out: str | Path, trial: Trial) -> Path:
    """The result file of a trial."""
    return Path(out) / trial.group / f"{trial.stem}.json"


def read_result(out: str | Path, trial: Trial) -> dict[str, Any] | None:
    """The result of a trial or None; `InputError` if it was measured with other settings."""
    path = result_path(out, trial)
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        before, test = config_from_dict(result["config"], str(path)), result["test"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a result ({error}); delete it to measure it again") from error
    changed = _changes(trial, before, trial.tested, result.get("began_with"))
    if test["copies"] != trial.copies:
        changed["copies"] = test["copies"], trial.copies
    if test["limit"] != trial.test_shapes:
        changed["test_shapes"] = test["limit"], trial.test_shapes
    if changed:
        raise InputError(
            f"{path} was measured with other settings: {_listed(changed)}. Set them back, or move this file and its run away "
            "to measure it again"
        )
    return result


def check_run(folder: Path, trial: Trial) -> None:
    """Raise `InputError` if a folder holds a run with other settings."""
    if not (folder / "config.json").exists():
        return
    record = folder / START
    began_with = json.loads(record.read_text(encoding="utf-8")) if record.exists() else None
    changed = _changes(trial, load_config(folder / "config.json"), trial.config, began_with)
    if changed:
        raise InputError(
            f"{folder} holds a run with other settings: {_listed(changed)}. Move it away, or name another folder with --runs"
        )


def write_result(out: str | Path, trial: Trial, result: dict[str, Any], log: Path) -> Path:
    """Write the log of a trial, then its result: an existing result is complete."""
    path = result_path(out, trial)
    if log.exists():
        write_page(path.with_suffix(".csv"), log.read_text(encoding="utf-8"))
    return write_result_file(path, result)


def _changes(
    trial: Trial, before: TrainConfig, now: TrainConfig, began_with: dict[str, Any] | None
) -> dict[str, tuple[Any, Any]]:
    """The settings that differ; for a trial that starts from another's weights, the training of these, not their path."""
    changed = differing(before, now)
    if trial.after is not None:
        changed.pop("start_from", None)
        trained = config_from_dict(began_with["config"], "what the run began with") if began_with else TrainConfig()
        earlier = differing(trained, trial.after.config)
        if trial.after.after is not None:  # it began with another's weights in its turn
            earlier.pop("start_from", None)
        changed |= {f"{name} of what it begins with": two for name, two in earlier.items()}
    return changed


def _listed(changed: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{name} {one!r}, now {two!r}" for name, (one, two) in changed.items())
