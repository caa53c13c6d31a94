"""Training with a teacher: its answers in the loss, what is refused, and a run that is stopped and resumed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.train import Run, fit
from reqnn.train.batches import Batches
from reqnn.train.task import imitation_loss


@pytest.fixture
def teacher(clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path) -> Run:
    return fit(settings(epochs=4, out=str(tmp_path / "teacher")), clouds, held_out, quiet=True)


def test_the_loss_is_the_cross_entropy_with_the_teachers_probabilities() -> None:
    answers = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], dtype=torch.float64)
    outputs = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    class Teacher(nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return answers

    loss = imitation_loss(outputs, Teacher(), torch.zeros(2, 5, 3))
    expected = -(answers.softmax(1) * outputs.log_softmax(1)).sum(1).mean()
    assert torch.allclose(loss, expected)
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert torch.allclose(gradient, (outputs.softmax(1) - answers.softmax(1)) / 2)


def distance(student: Run, teacher: Run, clouds: PointClouds) -> float:
    return (student.model(clouds.points).softmax(1) - teacher.model(clouds.points).softmax(1)).abs().mean().item()


def test_a_student_comes_closer_to_its_teacher_than_labels_bring_it(
    teacher: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    given = {"teacher": str(tmp_path / "teacher"), "teacher_share": 0.95}
    taught = fit(settings(epochs=6, seed=1, **given, out=str(tmp_path / "taught")), clouds, held_out, quiet=True)
    alone = fit(settings(epochs=6, seed=1, out=str(tmp_path / "alone")), clouds, held_out, quiet=True)
    assert distance(taught, teacher, held_out) < 0.9 * distance(alone, teacher, held_out)


def test_a_stopped_run_resumes_to_the_same_weights(
    teacher: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path, monkeypatch
) -> None:
    def config(name: str):
        return settings(teacher=str(tmp_path / "teacher"), checkpoint_steps=1, out=str(tmp_path / name))

    through = fit(config("through"), clouds, held_out, quiet=True)
    read = Batches.__getitem__

    def fail_in_the_second_epoch(self: Batches, step: int):
        if step == 8:
            raise RuntimeError("power cut")
        return read(self, step)

    monkeypatch.setattr(Batches, "__getitem__", fail_in_the_second_epoch)
    with pytest.raises(RuntimeError, match="power cut"):
        fit(config("stopped"), clouds, held_out, quiet=True)
    monkeypatch.setattr(Batches, "__getitem__", read)
    stopped = fit(config("stopped"), clouds, held_out, resume=True, quiet=True)
    for name, parameter in through.model.named_parameters():
        assert parameter.equal(dict(stopped.model.named_parameters())[name]), name


def test_another_teacher_is_refused_on_resume(
    teacher: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    config = settings(teacher=str(tmp_path / "teacher"), out=str(tmp_path / "run"))
    fit(config, clouds, held_out, quiet=True)
    (tmp_path / "teacher").rename(tmp_path / "moved")
    fit(settings(seed=5, out=str(tmp_path / "teacher")), clouds, held_out, quiet=True)
    with pytest.raises(InputError, match="teacher's weights are not those that the run was started with"):
        fit(config, clouds, held_out, resume=True, quiet=True)


def test_what_is_refused(teacher: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path) -> None:
    renamed = [replace(some, classes=tuple("abcdefghij")) for some in (clouds, held_out)]
    with pytest.raises(InputError, match="answers other classes"):
        fit(settings(teacher=str(tmp_path / "teacher"), out=str(tmp_path / "run")), *renamed, quiet=True)
    with pytest.raises(InputError, match="only classification learns from another network"):
        settings(teacher="x", task="reconstruction")
    with pytest.raises(InputError, match="teacher_share is 1"):
        settings(teacher="x", teacher_share=1.0)
