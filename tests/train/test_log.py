import sys
from pathlib import Path

import pytest

from reqnn.train import log
from reqnn.train.log import Display, draw_curve
from reqnn.train.task import Classification, Reconstruction

ROW = {"epoch": 1, "step": 5, "train_loss": 1.25, "train_accuracy": 0.5, "validation_accuracy": 0.25}


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PAUSE", -1.0)
    with Display(Classification(), epochs=2, steps=10, start=0, batch=8) as shown:
        shown.step(1, 1, loss=2.0, metric=0.125)
        shown.epoch(ROW, best=0.25)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1/2  step 1/10  loss 2.000  accuracy  12.5 %")
    assert second.startswith("epoch 1/2  loss 1.250  accuracy 50.0 %  validation 25.0 % (best 25.0 %)")
    assert "\x1b" not in first + second


def test_steps_are_not_all_printed(capsys: pytest.CaptureFixture) -> None:
    with Display(Classification(), epochs=2, steps=10, start=0, batch=8) as shown:
        for step in range(10):
            shown.step(step, 1, 1.0, 0.0)
    assert capsys.readouterr().out == ""


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with Display(Classification(), epochs=2, steps=10, start=0, batch=8) as shown:
        shown.step(5, 1, loss=2.0, metric=0.125)
        shown.epoch(ROW, best=0.25)
    out = capsys.readouterr().out
    assert "loss 2.000" in out
    assert "validation 25.0 %" in out


def test_nothing_where_silent(capsys: pytest.CaptureFixture) -> None:
    with Display(Classification(), epochs=1, steps=1, start=0, batch=1, shown=False) as shown:
        shown.step(1, 1, 1.0, 1.0)
        shown.epoch(ROW, 1.0)
        shown.line("never")
    assert capsys.readouterr().out == ""


def test_times_are_read_like_a_clock(capsys: pytest.CaptureFixture) -> None:
    with Display(Classification(), epochs=1, steps=3, start=0, batch=8) as shown:
        for shown.pace in (0, 32.5, 1862.95):
            shown.epoch({**ROW, "step": 1}, best=0.25)
    left = [line.rpartition("clouds/s  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert left == ["0:00:00 left", "0:01:05 left", "1:02:05 left"]


def test_a_small_distance_is_shown_with_its_digits(capsys: pytest.CaptureFixture) -> None:
    row = {"epoch": 1, "step": 5, "train_loss": 0.00123, "train_chamfer": 0.00123, "validation_chamfer": 0.0021}
    with Display(Reconstruction(), epochs=2, steps=10, start=0, batch=8) as shown:
        shown.epoch(row, best=0.0021)
    assert capsys.readouterr().out.startswith("epoch 1/2  loss 0.00123  chamfer 0.00123  validation 0.00210 (best 0.00210)")


@pytest.mark.parametrize("task", [Classification(), Reconstruction()], ids=lambda task: task.metric)
def test_the_curve_is_a_picture(task: Classification | Reconstruction, tmp_path: Path) -> None:
    names = [f"{part}_{what}" for part in ("train", "validation") for what in ("loss", task.metric)]
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "curve.png").symlink_to(tmp_path / "victim")
    draw_curve([{"epoch": epoch, **dict.fromkeys(names, 1 / epoch)} for epoch in (1, 2)], task, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "victim").read_text() == "mine"  # a link is replaced, not written through
