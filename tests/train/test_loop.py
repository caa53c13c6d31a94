import csv
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError, Stopped
from reqnn.train import fit, load_run, loop
from reqnn.train.checkpoint import STATE
from reqnn.train.loop import Training
from reqnn.train.weights import load_tensors

REQNN = {"model": "dgcnn", "equivariant": True, "options": {"width": 0.0625, "k": 4}}


def state(folder: str | Path) -> dict[str, Tensor]:
    return load_tensors(Path(folder) / STATE)[0]


def log(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "log.csv").read_text().splitlines()))


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return set(a) == set(b) and all(a[name].equal(b[name]) for name in a)


def test_a_run_learns_and_leaves_all_its_files(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    run = fit(settings(epochs=6), clouds, held_out, quiet=True)
    assert run.folder is not None
    names = "best.safetensors config.json curve.png last.safetensors log.csv metrics.json"
    names += " run.lock state.safetensors versions.json"
    assert sorted(path.name for path in run.folder.iterdir()) == names.split()
    rows = log(run.folder)
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])
    assert json.loads((run.folder / "metrics.json").read_text()) == run.metrics
    assert run.metrics["finished"]
    assert not run.model.training


def test_the_best_weights_are_those_of_the_best_epoch(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    run = fit(settings(epochs=5, lr=0.05), clouds, held_out, quiet=True)
    accuracies = [float(row["validation_accuracy"]) for row in log(run.folder)]
    assert run.metrics["best_validation_accuracy"] == max(accuracies)
    assert run.metrics["best_epoch"] == accuracies.index(max(accuracies)) + 1
    answers = run.model(held_out.points).argmax(1)
    assert (answers == held_out.labels).double().mean().item() == pytest.approx(max(accuracies))


def test_quiet_is_quiet_and_otherwise_there_are_lines(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fit(settings(), clouds, held_out, quiet=True)
    assert capsys.readouterr().out == ""
    fit(settings(out=str(tmp_path / "other")), clouds, held_out)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("pointnet on digits: 96 clouds of 24 points")
    assert lines[2].startswith("epoch 2/2  loss ")
    assert "reqnn eval" in lines[3]


@pytest.mark.parametrize(
    "given",
    [
        {"ema": 0.9, "optimizer": "sgd", "workers": 2},
        {**REQNN, "accumulate": 2, "clip": 1.0, "jitter": 0.01, "protocol": "AR"},
    ],
)
def test_a_run_stopped_in_the_middle_goes_on_to_the_same_weights(
    given: dict, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through, stopped = settings(**given, out=str(tmp_path / "a")), settings(**given, out=str(tmp_path / "b"))
    fit(through, clouds, held_out, quiet=True)
    step = Training.step

    def interrupted(training: Training, points: Tensor, labels: Tensor) -> None:
        if training.progress.step == 7:  # of 12: in the second epoch
            signal.raise_signal(signal.SIGINT)
        return step(training, points, labels)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", interrupted)
        with pytest.raises(Stopped):
            fit(stopped, clouds, held_out, quiet=True)
    about = load_tensors(tmp_path / "b" / STATE)[1]
    assert about["progress"]["step"] == 8
    torch.manual_seed(99)  # what others draw does not matter
    fit(stopped, clouds, held_out, resume=True, quiet=True)
    assert equal(state(tmp_path / "a"), state(tmp_path / "b"))
    logs = [log(tmp_path / name) for name in "ab"]
    for row in (row for rows in logs for row in rows):
        del row["seconds"]
    assert logs[0] == logs[1]


def test_a_finished_run_that_is_resumed_stays(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    config = settings()
    fit(config, clouds, held_out, quiet=True)
    before = state(config.folder)
    fit(config, clouds, held_out, resume=True, quiet=True)
    assert equal(state(config.folder), before)


def test_a_folder_with_a_run_is_not_overwritten(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    fit(settings(), clouds, held_out, quiet=True)
    with pytest.raises(InputError, match="already holds a run; --resume continues"):
        fit(settings(), clouds, held_out, quiet=True)
    with pytest.raises(InputError, match=r"^lr is 0\.02"):
        fit(settings(lr=0.02), clouds, held_out, resume=True, quiet=True)


def test_a_run_does_not_go_on_with_other_clouds_or_another_precision(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(settings(), clouds, held_out, quiet=True)
    fewer = clouds.subset(torch.arange(80))
    for given, name in (((fewer, held_out), "training"), ((clouds, held_out.subset(torch.arange(30))), "validation")):
        with pytest.raises(InputError, match=f"the {name} clouds are not those that the run was started with"):
            fit(settings(), *given, resume=True, quiet=True)
    monkeypatch.setattr(loop, "resolved_precision", lambda *given: "bf16-mixed")
    with pytest.raises(InputError, match="started in 32-true, and would continue in bf16-mixed here"):
        fit(settings(), clouds, held_out, resume=True, quiet=True)


def test_the_versions_are_those_that_the_run_was_begun_with(
    clouds: PointClouds, held_out: PointClouds, settings: Callable
) -> None:
    folder = settings().folder
    fit(settings(), clouds, held_out, quiet=True)
    (folder / "versions.json").write_text("{}")
    fit(settings(), clouds, held_out, resume=True, quiet=True)
    assert (folder / "versions.json").read_text() == "{}"


def test_the_state_of_the_process_is_as_before(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    random, handler = torch.get_rng_state(), signal.getsignal(signal.SIGINT)
    fit(settings(epochs=1), clouds, held_out, quiet=True)
    assert torch.get_rng_state().equal(random)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1


def test_a_loss_that_is_not_finite_stops_the_run(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    with pytest.raises(InputError, match="the loss is nan in step"):
        fit(settings(optimizer="sgd", lr=1e30, schedule="constant"), clouds, held_out, quiet=True)


def test_an_average_is_what_is_validated_and_kept(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    config = settings(ema=0.5, epochs=1, recalibrate=0)
    fit(config, clouds, held_out, quiet=True)
    kept, whole = load_tensors(config.folder / "last.safetensors")[0], state(config.folder)
    assert all(tensor.equal(whole[f"average/{name}"]) for name, tensor in kept.items())
    assert not kept["conv1.weight"].equal(whole["model/conv1.weight"])


def test_accumulation_takes_the_same_step_where_nothing_depends_on_the_batch(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 10)

        def forward(self, points: Tensor) -> Tensor:
            return self.layer(points.square().mean(1))

    found = []
    for accumulate in (1, 4):
        torch.manual_seed(0)
        config = settings(epochs=1, accumulate=accumulate, precision="64-true", out=str(tmp_path / str(accumulate)))
        found.append(fit(config, clouds, held_out, model=Mean(), quiet=True).model.layer.weight)
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_a_network_of_your_own_is_trained_and_read_back(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(72, 10))

    run = fit(settings(epochs=1), clouds, held_out, model=build(), quiet=True)
    again = load_run(run.folder, model=build())
    assert again.model(held_out.points).equal(run.model(held_out.points))


def test_a_validation_set_is_split_off_where_none_is_given(clouds: PointClouds, settings: Callable) -> None:
    run = fit(settings(epochs=1, validation=0.25), clouds, quiet=True)
    assert run.metrics["training_clouds"] + run.metrics["validation_clouds"] == 96
    assert 15 < run.metrics["validation_clouds"] < 35


def test_a_fraction_of_the_training_clouds(settings: Callable) -> None:
    """The same share of every class, drawn by the seed, a smaller one within a larger one; validation clouds stay."""

    def chosen(fraction: float, seed: int = 0) -> tuple[set[bytes], torch.Tensor, PointClouds]:
        train, validation = loop.choose_clouds(settings(data="digits", fraction=fraction, seed=seed))
        return {cloud.numpy().tobytes() for cloud in train.points}, torch.bincount(train.labels), validation

    everything, per_class, validation = chosen(1.0)
    some, few, _ = chosen(0.3)
    fewer, fewest, same = chosen(0.1)
    assert fewer < some < everything
    assert fewer != chosen(0.1, seed=1)[0]
    assert fewer == chosen(0.1)[0]
    assert (few - 0.3 * per_class).abs().max() <= 1
    assert (fewest - 0.1 * per_class).abs().max() <= 1
    assert same.points.equal(validation.points)


def test_data_are_found_by_name(settings: Callable) -> None:
    run = fit(settings(epochs=1, data="digits", limit=64), quiet=True)
    assert run.metrics["training_clouds"] + run.metrics["validation_clouds"] == 64
    assert run.classes == tuple("0123456789")


def test_nothing_to_validate_by_is_an_error(clouds: PointClouds, settings: Callable) -> None:
    with pytest.raises(InputError, match="left for validation"):
        fit(settings(), clouds, clouds.subset([]), quiet=True)


@pytest.mark.parametrize(("equivariant", "kernels"), [(False, "off"), (True, "off"), (True, "on")])  # off: as on a GPU
def test_bfloat16_keeps_weights_and_statistics_in_float32(
    equivariant: bool,
    kernels: str,
    clouds: PointClouds,
    held_out: PointClouds,
    settings: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reqnn.kernels.run.enabled", kernels == "on")
    config = settings(**{**REQNN, "equivariant": equivariant}, epochs=1, precision="bf16-mixed")
    fit(config, clouds, held_out, quiet=True)
    assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in state(config.folder).values())
    exact = replace(config, precision="32-true", out=f"{config.out}-exact")
    fit(exact, clouds, held_out, quiet=True)
    rough, fine = (load_run(c.folder).metrics["last"]["train_loss"] for c in (config, exact))
    assert rough != fine
    assert rough == pytest.approx(fine, rel=0.05)


def test_tensorboard_is_written_where_asked(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    pytest.importorskip("tensorboard")
    run = fit(settings(epochs=1, tensorboard=True), clouds, held_out, quiet=True)
    assert list((run.folder / "tensorboard").glob("events*"))
