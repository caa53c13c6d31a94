"""Weights that ship: written with what was measured on the very file, or not at all."""

import hashlib
import json
import shutil
from dataclasses import replace

import pytest
import torch

from experiments.__main__ import main
from experiments.harness.accuracy import rotation_test, run_facts
from experiments.weights import export
from experiments.weights.export import export_weights
from reqnn.errors import InputError
from reqnn.pretrained import load
from reqnn.train import TrainConfig, fit, load_run
from reqnn.train.evaluation import evaluate
from reqnn.train.weights import load_tensors


def test_the_card_tells_what_was_measured(run_folder, test_digits, tmp_path):
    path = export_weights(run_folder, "dgcnn-digits", tmp_path, clouds=test_digits, copies=3)
    card = json.loads(path.with_suffix(".json").read_text())
    net = load(path)
    assert net.card == card
    upright, rotated = (evaluate(net, test_digits, protocol, 3) for protocol in ("NR", "AR"))
    assert card["test"]["upright"] == upright.accuracy
    assert card["test"]["rotated"] == rotated.accuracy
    assert card["test"]["consistency"] == 1 - rotated.inconsistent
    assert card["audit"]["ok"]
    assert card["audit"]["rotation_error"] < 1e-10
    assert card["training"]["training_clouds"] + card["training"]["validation_clouds"] == 256
    assert card["bytes"] == path.stat().st_size < export.LARGEST
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(run_folder.parent) not in json.dumps(card) + str(load_tensors(path)[1])
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"dgcnn-digits.{end}" for end in ("json", "md", "safetensors")]


def test_options_are_kept_with_the_weights(run_folder, test_digits, tmp_path):
    """Four neighbours more than in training: other answers, with the weights of the run; what does not fit is refused."""
    before = load(run_folder)
    path = export_weights(run_folder, "other", tmp_path, options={"k": 12}, clouds=test_digits, copies=1)
    net = load(path)
    assert net.card["config"]["options"]["k"] == 12
    assert (net(test_digits.points) - before(test_digits.points)).abs().max() > 1e-3
    with pytest.raises(InputError, match="does not belong to this network"):
        export_weights(run_folder, "wide", tmp_path, options={"width": 0.5}, clouds=test_digits)


def test_networks_without_neighbourhoods_can_be_exported(test_digits, tmp_path):
    small = {"options": {"width": 0.0625}, "points": 48, "limit": 64, "epochs": 1, "batch": 16, "threads": 1}
    fit(TrainConfig(model="pointnet", equivariant=True, **small, out=str(tmp_path / "run")), quiet=True)
    card = json.loads(
        export_weights(tmp_path / "run", "pointnet", tmp_path, clouds=test_digits, copies=1).with_suffix(".json").read_text()
    )
    assert card["ambiguity"] is None
    fit(TrainConfig(model="pointnet_reconstruction", task="reconstruction", **small, out=str(tmp_path / "clouds")), quiet=True)
    with pytest.raises(InputError, match="is a run for reconstruction; only classifiers can be exported"):
        export_weights(tmp_path / "clouds", "clouds", tmp_path, clouds=test_digits)


def test_the_last_weights_are_not_called_the_chosen_ones(run_folder, test_digits, tmp_path):
    best, last = (load_run(run_folder, name) for name in ("best", "last"))
    assert last.row["epoch"] == 3
    assert best.row["epoch"] == best.metrics["best_epoch"] < 3, "the run should not end with its best epoch"
    for run, name, chosen in ((best, "best", True), (last, "last", False)):
        file = run_folder / f"{name}.safetensors"
        path = export_weights(file, name, tmp_path, clouds=test_digits, copies=1)
        card = json.loads(path.with_suffix(".json").read_text())
        assert card["training"]["best_epoch"] == run.row["epoch"]
        assert card["training"]["validation_accuracy"] == run.row["validation_accuracy"]
        assert ("chosen on the validation clouds" in path.with_suffix(".md").read_text()) == chosen


def test_the_card_can_be_read(run_folder, test_digits, tmp_path):
    text = export_weights(run_folder, "dgcnn-digits", tmp_path, clouds=test_digits, copies=3).with_suffix(".md").read_text()
    assert text.startswith("# dgcnn-digits\n")
    for part in ("REQNN of dgcnn", "trained on digits (10 classes)", "each in 3 arbitrary orientations", "Audit: passes."):
        assert part in text
    assert 'reqnn.load("dgcnn-digits")' in text


def test_half_precision_takes_half_and_keeps_the_statistics(run_folder, test_digits, tmp_path):
    whole, half = (
        export_weights(run_folder, name, tmp_path, half=name == "half", clouds=test_digits, copies=2)
        for name in ("whole", "half")
    )
    tensors = load_tensors(half)[0]
    assert {tensor.dtype for name, tensor in tensors.items() if name.endswith("weight")} == {torch.float16}
    assert {tensor.dtype for name, tensor in tensors.items() if "running" in name} == {torch.float32}
    assert half.stat().st_size < 0.75 * whole.stat().st_size
    net = load(half)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}
    before, after = load(whole)(test_digits.points), net(test_digits.points)
    assert (after - before).abs().mean() < 0.1 * before.std(0).mean()
    assert net.card["storage"] == "float16"


def test_half_precision_that_costs_accuracy_is_refused(run_folder, test_digits, tmp_path, monkeypatch):
    answers = load(run_folder)(test_digits.points).argmax(1)
    sure = replace(test_digits, labels=answers).subset((answers > 0).nonzero()[:, 0])
    monkeypatch.setattr(export, "_halved", torch.zeros_like)  # all logits 0: the answer is always the first class
    with pytest.raises(InputError, match=r"half precision costs accuracy: 100\.00 % before, 0\.00 % after"):
        export_weights(run_folder, "half", tmp_path, half=True, clouds=sure)
    assert list(tmp_path.iterdir()) == []


def test_weights_beyond_the_range_of_half_are_refused(tmp_path):
    with pytest.raises(InputError, match="beyond the range of half precision"):
        export._halved(torch.tensor([1e6]))


def test_what_is_too_large_is_refused(run_folder, test_digits, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "LARGEST", 1000)
    with pytest.raises(InputError, match="at most 0 MB ship: --half"):
        export_weights(run_folder, "large", tmp_path, clouds=test_digits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../up", "Large", "a b", ".hidden"])
def test_names(name, run_folder, test_digits, tmp_path):
    with pytest.raises(InputError, match="is no name for weights"):
        export_weights(run_folder, name, tmp_path, clouds=test_digits)


def test_weights_are_replaced_only_where_asked(run_folder, test_digits, tmp_path):
    given = {"clouds": test_digits, "copies": 2}
    export_weights(run_folder, "some", tmp_path, **given)
    with pytest.raises(InputError, match="--replace takes its place"):
        export_weights(run_folder, "some", tmp_path, **given)
    export_weights(run_folder, "some", tmp_path, replace_existing=True, **given)


def test_the_command(run_folder, tmp_path, capsys):
    words = ["export-weights", str(run_folder), "dgcnn-digits", "--out", str(tmp_path), "--copies", "1"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Audit: passes." in shown
    assert f"wrote {tmp_path}/dgcnn-digits.safetensors" in shown
    assert json.loads((tmp_path / "dgcnn-digits.json").read_text())["test"]["shapes"] == 360
    assert main(words) == 2
    assert "--replace" in capsys.readouterr().err


@pytest.fixture
def result(run_folder, test_digits, tmp_path):
    """What a trial writes about a run: its test, its weights, its settings."""
    run = load_run(run_folder)
    test = {"shapes": len(test_digits), "copies": 2, "seed": 0, "limit": None, "fingerprint": test_digits.fingerprint()}
    path = tmp_path / "result.json"
    found = {**rotation_test(run, test_digits, 2), "test": test, **run_facts(run), "tested_with": {"commit": "of the test"}}
    path.write_text(json.dumps(found))
    return path


def test_a_test_of_the_same_weights_is_not_made_again(run_folder, test_digits, tmp_path, result, monkeypatch):
    cards = []
    for name, tested in (("tested", result), ("anew", None)):
        path = export_weights(run_folder, name, tmp_path, clouds=test_digits, copies=2, tested=tested)
        cards.append(json.loads(path.with_suffix(".json").read_text()))
    assert cards[0].pop("tested_with") == {"commit": "of the test"} != cards[1].pop("tested_with")
    assert cards[0] == {**cards[1], "name": "tested", "sha256": cards[0]["sha256"]}  # a file's header has no order
    monkeypatch.setattr(export, "rotation_test", None)
    export_weights(run_folder, "again", tmp_path, clouds=test_digits, copies=2, tested=result)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"copies": 3}, "the result of another test: copies 2, here 3"),
        ({"options": {"k": 12}}, "options .* here .*'k': 12"),
        ({"half": True}, "weights '"),
    ],
)
def test_a_test_of_others_is_refused(run_folder, test_digits, tmp_path, result, given, message):
    with pytest.raises(InputError, match=message):
        export_weights(run_folder, "some", tmp_path, clouds=test_digits, tested=result, **{"copies": 2, **given})
    assert not (tmp_path / "some.safetensors").exists()


def test_nor_one_of_other_clouds_or_none(run_folder, test_digits, tmp_path, result):
    some = test_digits.subset(range(len(test_digits) - 1))
    with pytest.raises(InputError, match="fingerprint"):
        export_weights(run_folder, "some", tmp_path, clouds=some, copies=2, tested=result)
    result.write_text("{}")
    with pytest.raises(InputError, match="is no result of these weights that can be read"):
        export_weights(run_folder, "some", tmp_path, clouds=test_digits, copies=2, tested=result)


def test_the_card_tells_what_a_run_began_with(run_folder, test_digits, tmp_path):
    run = shutil.copytree(run_folder, tmp_path / "run")
    before = {**load_run(run).config.without_folders(), "epochs": 17}
    (run / "start.json").write_text(json.dumps({"weights": "abc", "config": before}))
    path = export_weights(run, "some", tmp_path, clouds=test_digits, copies=1)
    text = path.with_suffix(".md").read_text()
    assert "It began with weights of an earlier training (checksum `abc`): points 48, epochs 17" in text
    assert (
        "earlier training"
        not in export_weights(run_folder, "x", tmp_path, clouds=test_digits, copies=1).with_suffix(".md").read_text()
    )
