from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

from reqnn.errors import InputError
from reqnn.train import checkpoint
from reqnn.train.checkpoint import PREVIOUS, STATE, Progress, check_disk, load_state, save_state
from reqnn.train.weights import load_tensors, save_tensors


def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_weights_optimizer_and_progress_come_back(tmp_path: Path) -> None:
    model, optimizer = trained(3)
    progress = Progress(step=3, best=0.5, best_epoch=1, history=[{"epoch": 1, "loss": 1 / 3}], sums=[0.1, 2, 3], seconds=1.5)
    save_state(tmp_path, progress, model, optimizer)
    other, fresh = trained(0)
    assert load_state(tmp_path, other, fresh) == progress
    assert all(a.equal(b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
    before, after = optimizer.state_dict(), fresh.state_dict()
    for index, slot in before["state"].items():
        assert all(value.equal(after["state"][index][key]) for key, value in slot.items())


def test_checkpoints_of_version_0_1_are_read(tmp_path: Path) -> None:
    save_state(tmp_path, Progress(step=3, inputs_fingerprint={"precision": "32-true"}), *trained(3))
    tensors, about = load_tensors(tmp_path / STATE)
    about["progress"]["ground"] = about["progress"].pop("inputs_fingerprint")
    save_tensors(tmp_path / STATE, tensors, about)
    progress = load_state(tmp_path, *trained(0))
    assert progress is not None
    assert progress.inputs_fingerprint == {"precision": "32-true"}


def test_nothing_saved_is_no_error(tmp_path: Path) -> None:
    assert load_state(tmp_path, *trained(0)) is None


@pytest.mark.parametrize("damage", ["cut off", "another step", "a lost key", "gone"])
def test_the_one_before_steps_in(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture) -> None:
    for step in (1, 2):
        save_state(tmp_path, Progress(step=step), *trained(step))
    if damage == "gone":  # as after a crash between two renames
        (tmp_path / STATE).unlink()
    elif damage == "a lost key":  # as in an earlier file, whose checksum does not cover the record
        tensors, about = load_tensors(tmp_path / STATE)
        save_tensors(tmp_path / STATE, tensors, {"optimizer": about["optimizer"]})
    else:
        content = (tmp_path / STATE).read_bytes()
        changed = content[:500] if damage == "cut off" else content.replace(rb"step\": 2", rb"step\": 9")
        (tmp_path / STATE).write_bytes(changed)
        assert changed != content
    progress = load_state(tmp_path, *trained(0))
    assert progress is not None
    assert progress.step == 1
    assert (PREVIOUS in capsys.readouterr().err) == (damage != "gone")


def test_two_damaged_ones_are_an_error(tmp_path: Path) -> None:
    for name in (STATE, PREVIOUS):
        (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(InputError, match="no checkpoint can be read"):
        load_state(tmp_path, *trained(0))


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        check_disk(tmp_path / "file" / "run", nn.Linear(2, 2), averaged=False)


def test_a_full_disk_is_reported_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda folder: Usage(5_000_000))
    with pytest.raises(InputError, match=r"5 MB are free; the checkpoints need about \d+ MB"):
        check_disk(tmp_path, nn.Linear(2, 2), averaged=True)


def test_enough_room_is_no_error_and_leaves_nothing(tmp_path: Path, settings: Callable) -> None:
    check_disk(tmp_path / "run", nn.Linear(2, 2), averaged=False)
    assert list((tmp_path / "run").iterdir()) == []
