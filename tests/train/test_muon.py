import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from reqnn.cli import main, parse
from reqnn.commands.train import Train
from reqnn.data.dataset import PointClouds
from reqnn.errors import Stopped
from reqnn.train import fit
from reqnn.train.checkpoint import STATE
from reqnn.train.loop import Training
from reqnn.train.optimization import Muon, hidden_and_rest, make_optimizer, orthogonalise
from reqnn.train.weights import load_tensors
from reqnn.zoo import create_model


def polynomial(matrix: Tensor) -> Tensor:
    """Newton-Schulz by its effect on singular values: five times s → 3.4445·s − 4.7750·s³ + 2.0315·s⁵."""
    u, s, v = torch.linalg.svd(matrix / matrix.norm(), full_matrices=False)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (6, 3, 2), (4, 8, 1, 1), (1, 7)])
def test_steps_follow_the_formula(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(shape, dtype=torch.float64))
    expected, momentum = parameter.detach().clone(), torch.zeros(shape, dtype=torch.float64)
    optimizer = Muon([parameter], [], lr=0.02, weight_decay=0.1)
    for _ in range(4):
        parameter.grad = gradient = torch.randn(shape, dtype=torch.float64)
        optimizer.step()
        momentum = 0.95 * momentum + gradient
        nesterov = (gradient + 0.95 * momentum).reshape(shape[0], -1)
        size = 0.02 * 0.2 * math.sqrt(max(nesterov.shape))
        expected = expected - 0.02 * 0.1 * expected - size * polynomial(nesterov).reshape(shape)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-8)  # 1e-7 beside the norm


@pytest.mark.parametrize("shape", [(64, 64), (96, 32), (32, 96)])
def test_updates_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(size, min(shape)))[0] for size in shape)
    matrix = left @ torch.diag(torch.logspace(0, -1.5, min(shape))) @ right.T  # condition number 32
    values = torch.linalg.svdvals(orthogonalise(matrix))
    assert 0.6 < values.min() < values.max() < 1.3


def test_a_zero_gradient_moves_nothing() -> None:
    parameter = nn.Parameter(torch.ones(3, 2))
    parameter.grad = torch.zeros(3, 2)
    Muon([parameter], [], weight_decay=0.0).step()
    assert parameter.equal(torch.ones(3, 2))


def test_the_rest_is_trained_by_adamw() -> None:
    torch.manual_seed(0)
    start = torch.randn(7)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    muon = Muon([], [ours], lr=0.01, adamw_lr=0.003, betas=(0.8, 0.999), weight_decay=0.02)
    adamw = torch.optim.AdamW([theirs], lr=0.003, betas=(0.8, 0.999), weight_decay=0.02, foreach=False)
    for _ in range(5):
        ours.grad = torch.randn(7)
        theirs.grad = ours.grad.clone()
        muon.step()
        adamw.step()
        assert ours.equal(theirs)


def test_matrices_but_the_last_layer_are_muons() -> None:
    model = create_model("dgcnn", num_classes=10, width=0.125)
    hidden, rest = (set(map(id, part)) for part in hidden_and_rest(model))
    names = {name for name, parameter in model.named_parameters() if id(parameter) in hidden}
    expected = {f"conv{index}.0.weight" for index in range(1, 7)} | {"head.fc1.weight", "head.fc2.weight"}
    assert names == expected
    assert hidden | rest == set(map(id, model.parameters()))
    assert not hidden & rest
    convolutions = nn.Sequential(nn.Conv1d(3, 4, 1), nn.Conv1d(4, 2, 1))
    assert hidden_and_rest(convolutions)[0] == [convolutions[0].weight]


def test_what_rules_learn_does_not_hide_the_last_layer() -> None:
    import reqnn

    model = reqnn.revise(create_model("dgcnn", num_classes=10, width=0.125, k=4), torch.randn(2, 16, 3), rules="full")
    hidden, rest = hidden_and_rest(model)
    assert all(parameter.ndim >= 2 for parameter in hidden)
    assert [tuple(parameter.shape) for parameter in rest if parameter.ndim >= 2] == [(10, 32)]


def test_both_groups_follow_one_schedule(settings: Callable, clouds: PointClouds, held_out: PointClouds) -> None:
    config = settings(optimizer="muon", lr=0.02, adamw_lr=0.005)
    optimizer = make_optimizer(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), config)
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 0.005]
    assert [group["factor"] for group in optimizer.param_groups] == [1.0, 0.25]
    run = fit(config, clouds, held_out, quiet=True)
    assert run.metrics["finished"]
    assert run.metrics["last"]["lr"] < 0.02  # the column of the log is Muon's


def test_a_stopped_run_goes_on_bit_for_bit(
    settings: Callable, clouds: PointClouds, held_out: PointClouds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through, stopped = (settings(optimizer="muon", epochs=3, checkpoint_steps=2, out=str(tmp_path / name)) for name in "ab")
    fit(through, clouds, held_out, quiet=True)
    answers = iter([False] * 4)
    with monkeypatch.context() as patched:
        patched.setattr(Training, "agreed", lambda training, asked: next(answers, True))
        with pytest.raises(Stopped):
            fit(stopped, clouds, held_out, quiet=True)
    before = load_tensors(stopped.folder / STATE)[1]["progress"]["step"]
    assert 0 < before < load_tensors(through.folder / STATE)[1]["progress"]["step"]
    fit(stopped, clouds, held_out, quiet=True, resume=True)
    expected, found = (load_tensors(config.folder / STATE) for config in (through, stopped))
    assert any(name.endswith("/momentum") for name in expected[0])
    assert set(found[0]) == set(expected[0])
    assert all(found[0][name].equal(expected[0][name]) for name in expected[0])
    assert found[1]["optimizer"] == expected[1]["optimizer"]


def test_the_command_line_has_it(tmp_path: Path) -> None:
    def config(*arguments: str) -> dict:
        command = parse(["train", "--optimizer", "muon", *arguments])
        assert isinstance(command, Train)
        return command.config.to_dict()

    assert (config()["lr"], config()["adamw_lr"], config()["weight_decay"]) == (0.01, 3e-3, 0.01)
    assert config("--preset", "paper")["lr"] == 0.01
    assert config("--lr", "0.02", "--adamw-lr", "0.001")["lr"] == 0.02
    tiny = ["--model", "pointnet", "--data", "digits", "--points", "24", "--limit", "64", "--epochs", "1", "--threads", "1"]
    options = ["--options", '{"width": 0.0625}', "--accelerator", "cpu", "--out", str(tmp_path / "run")]
    assert main(["train", "--optimizer", "muon", *tiny, *options]) == 0
