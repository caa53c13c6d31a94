"""A training that begins with trained weights, and not with fresh ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.train import Run, fit, load_run
from reqnn.train import run as run_files
from reqnn.train.run import start_from
from reqnn.train.weights import load_tensors, weights_checksum

BUILD = r'does not belong to this network.*Build it as that one was: --model pointnet --options .*"width": 0.0625'
SLOW = {"epochs": 1, "lr": 1e-9, "weight_decay": 0.0, "recalibrate": 0}


@pytest.fixture
def trained(clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path) -> Run:
    return fit(settings(epochs=4, out=str(tmp_path / "trained")), clouds, held_out, quiet=True)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in run.model.named_parameters()}


def test_it_begins_where_the_other_run_ended(
    trained: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    before = weights(trained)
    for number, source in enumerate((tmp_path / "trained", tmp_path / "trained" / "best.safetensors")):
        config = settings(**SLOW, start_from=str(source), out=str(tmp_path / f"next{number}"))
        after = weights(fit(config, clouds, held_out, quiet=True))
        assert all(torch.allclose(after[name], before[name], atol=1e-6) for name in before)
    fresh = weights(fit(settings(**SLOW, out=str(tmp_path / "fresh")), clouds, held_out, quiet=True))
    assert not any(torch.allclose(fresh[name], before[name], atol=1e-3) for name in before if before[name].dim() > 1)


def test_a_run_that_goes_on_does_not_need_it_any_more(
    trained: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    config = settings(start_from=str(tmp_path / "trained"), out=str(tmp_path / "next"))
    first = weights(fit(config, clouds, held_out, quiet=True))
    (tmp_path / "trained").rename(tmp_path / "moved")
    again = weights(fit(config, clouds, held_out, resume=True, quiet=True))
    assert all(again[name].equal(first[name]) for name in first)


def test_weights_that_ship_are_known_by_name(
    trained: Run, settings: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "WEIGHTS", tmp_path)
    (tmp_path / "trained" / "best.safetensors").rename(tmp_path / "pointnet-digits.safetensors")
    network = trained.model
    wanted = weights(trained)
    for parameter in network.parameters():
        parameter.data.zero_()
    start_from(network, replace(trained.config, start_from="pointnet-digits"), trained.classes)
    assert all(parameter.equal(wanted[name]) for name, parameter in network.named_parameters())


def test_other_classes_begin_with_a_fresh_last_layer(
    trained: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    three = {name: replace(few(some), classes=("a", "b", "c")) for name, some in (("train", clouds), ("test", held_out))}
    config = settings(**SLOW, start_from=str(tmp_path / "trained"), out=str(tmp_path / "next"))
    after, before = weights(fit(config, three["train"], three["test"], quiet=True)), weights(trained)
    fresh = [name for name in before if after[name].shape != before[name].shape]
    assert {len(after[name]) for name in fresh} == {3}
    assert len(fresh) == 2  # weight and bias of one layer
    assert all(torch.allclose(after[name], before[name], atol=1e-6) for name in before if name not in fresh)


def test_weights_of_other_rules_are_refused(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    """A constant of the rules changes no shape, but what the weights do."""
    reqnn = {"model": "dgcnn", "equivariant": True, "options": {"width": 0.0625, "k": 4}, "epochs": 1}
    fit(settings(**reqnn, rule_options={"c": 0.1}, out=str(tmp_path / "trained")), clouds, held_out, quiet=True)
    again = {**reqnn, "start_from": str(tmp_path / "trained")}
    with pytest.raises(InputError, match=r"by other rules: paper with \{'c': 0.1.*not paper with \{'c': 1.0.*Build it as"):
        fit(settings(**again, out=str(tmp_path / "next")), clouds, held_out, quiet=True)
    same = {"c": 0.1, "fused": False}
    fit(settings(**again, rule_options=same, out=str(tmp_path / "same")), clouds, held_out, quiet=True)


def few(clouds: PointClouds) -> PointClouds:
    return clouds.subset((clouds.labels < 3).nonzero().flatten())


def test_what_does_not_fit_is_named(
    trained: Run, clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    for given, message in (
        ({"start_from": str(tmp_path / "nowhere")}, "there is no nowhere; give a run's folder or a weights file"),
        ({"start_from": str(tmp_path / "trained" / "state.safetensors")}, "is a checkpoint for --resume"),
        ({"start_from": str(tmp_path / "trained"), "options": {"width": 0.125}}, BUILD),
        ({"start_from": str(tmp_path / "trained"), "model": "dgcnn", "options": {"k": 4}}, BUILD),
    ):
        with pytest.raises(InputError, match=message):
            fit(settings(**{**given, "out": str(tmp_path / "next")}), clouds, held_out, quiet=True)
    assert "classes" in load_tensors(tmp_path / "trained" / "best.safetensors")[1]


def test_constants_that_were_not_given_are_those_of_the_rules(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path
) -> None:
    revised = {"equivariant": True, "rules": "paper"}
    fit(settings(**revised, epochs=1, out=str(tmp_path / "trained")), clouds, held_out, quiet=True)
    config = settings(
        **revised, rule_options={"c": 1.0}, epochs=1, start_from=str(tmp_path / "trained"), out=str(tmp_path / "next")
    )
    run = fit(config, clouds, held_out, quiet=True)
    record = json.loads((tmp_path / "next" / "start.json").read_text())
    assert record["weights"] == weights_checksum(load_run(tmp_path / "trained").model)
    assert record["config"]["rules"] == "paper"
    assert run.config.without_folders()["start_from"] == "trained"
    assert str(tmp_path) not in json.dumps([record, run.config.without_folders()])
    with pytest.raises(InputError, match="was trained by other rules"):
        start_from(run.model, replace(config, rule_options={"c": 0.5}), clouds.classes)
