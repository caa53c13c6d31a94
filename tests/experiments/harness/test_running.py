"""Cells are run once, go on where they were stopped, and are left to whoever is at them."""

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.harness import running
from experiments.harness.accuracy import load_test_set
from experiments.harness.running import run_trials
from experiments.paper.budgets import trial_of
from experiments.paper.experiments import select
from reqnn.errors import InputError, Stopped
from reqnn.train import evaluate, load_run
from reqnn.train.loop import Training
from reqnn.train.processes import locked
from written_shapes import TINY, write_data

KEY = "modelnet40/dgcnn/reqnn"
FILE = "modelnet40-dgcnn-reqnn"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the data, in which the commands are run."""
    monkeypatch.setenv("REQNN_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*patterns, budget=TINY, out="results", runs="runs/table4", **given):
    return run_trials([trial_of(one, budget) for one in select(patterns or [KEY])], out, runs, **given)


def result(place):
    return json.loads((place / "results" / "table4" / "quick" / f"{FILE}.json").read_text())


def test_a_cell_is_trained_tested_and_then_skipped(place, monkeypatch):
    said = []
    assert run(say=said.append).done == [KEY]
    found = result(place)
    assert found.keys() >= {
        "upright",
        "rotated",
        "consistency",
        "logit_change",
        "parameters",
        "epochs",
        "seconds",
        "config",
        "seed",
    }
    assert found["command"].endswith(f"--only {KEY} --out results")
    assert found["trained_with"]["versions"]["torch"] == found["tested_with"]["versions"]["torch"]
    assert found["test"]["shapes"] == 9
    assert str(place) not in json.dumps(found)
    assert (place / "results" / "table4" / "quick" / f"{FILE}.csv").read_text().count("\n") == 3
    assert (place / "runs" / "table4" / "quick" / FILE / "best.safetensors").exists()
    assert not list((place / "runs").rglob("*.holder"))
    assert len(said) == 2
    monkeypatch.setattr(running, "fit", None)
    assert run().done == []


def test_a_cell_tested_with_other_options_than_trained_with(place):
    budget = replace(TINY, networks={"dgcnn": {"options": {"k": 4, "sample": 16}}}, test_options={"dgcnn": {"votes": 2}})
    assert run(budget=budget).done == [KEY]
    found, trained = result(place), place / "runs" / "table4" / "quick" / FILE
    assert found["config"]["options"]["votes"] == 2
    assert "votes" not in load_run(trained).config.options
    clouds = load_test_set(trial_of(select([KEY])[0], budget).config)
    for votes, name in ((1, "upright_as_trained"), (2, "upright")):
        assert found[name] == evaluate(load_run(trained, options={"votes": votes}).model, clouds, "NR").accuracy
    assert run(budget=budget).done == []


def test_all_trainings_of_a_row(place):
    outcome = run("3d-mnist/pointnet2")
    assert len(outcome.done) == 3
    vertical = json.loads((place / "results" / "table4" / "quick" / "3d-mnist-pointnet2-vertical.json").read_text())
    assert vertical["config"]["protocol"] == "vertical"
    assert "changed" not in vertical


def test_the_same_cell_in_two_groups_is_trained_twice(place):
    one = trial_of(select([KEY])[0], TINY)
    longer = replace(one, group="table4/longer", config=replace(one.config, epochs=one.config.epochs + 1))
    outcome = run_trials([one, longer], "results", "runs")
    assert (outcome.done, outcome.failed) == ([KEY, KEY], {})
    files = [place / "results" / "table4" / name / f"{FILE}.json" for name in ("quick", "longer")]
    assert [json.loads(file.read_text())["epochs"] for file in files] == [one.config.epochs, one.config.epochs + 1]


def test_a_cell_that_goes_on_from_another_budget_trains_that_first(place, monkeypatch):
    further = replace(TINY, name="longer", settings={**TINY.settings, "lr": 1e-6, "min_lr": 0.0, "epochs": 1}, after=TINY)
    assert run(budget=further, runs="runs").done == [KEY, KEY]
    first, second = (place / "runs" / name / FILE for name in ("quick", "longer"))
    assert load_run(second).config.start_from == "runs/quick/modelnet40-dgcnn-reqnn"
    weights = [dict(load_run(folder).model.named_parameters()) for folder in (first, second)]
    for name, weight in weights[0].items():  # so small a rate moves nothing far from where it began
        assert torch.allclose(weight, weights[1][name], atol=1e-3)
    assert any(not torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    monkeypatch.setattr(running, "fit", None)
    assert run(budget=further, runs="elsewhere").done == []  # both results are there


def test_where_only_the_weights_are_missing_the_result_stays(place):
    further = replace(TINY, name="longer", after=TINY)
    run(runs="lost")
    first = place / "results" / "table4" / "quick" / f"{FILE}.json"
    first.write_text(json.dumps({**json.loads(first.read_text()), "upright": 0.123}))
    assert run(budget=further, runs="runs").done == [KEY, KEY]
    assert (place / "runs" / "quick" / FILE / "best.safetensors").exists()
    assert json.loads(first.read_text())["upright"] == 0.123


def test_what_is_trained_and_tested_already_is_gone_on_from(place):
    further = replace(TINY, name="longer", after=TINY)
    run(runs="runs")
    said = []
    assert run(budget=further, runs="runs", say=said.append).done == [KEY]
    assert len(said) == 2


def test_a_result_that_cannot_be_read_is_found_before_hours_are_spent(place, monkeypatch):
    (place / "results" / "table4" / "quick").mkdir(parents=True)
    (place / "results" / "table4" / "quick" / f"{FILE}.json").write_text("{}")
    monkeypatch.setattr(running, "fit", None)
    with pytest.raises(InputError, match="cannot be read as a result"):
        run(budget=replace(TINY, name="longer", after=TINY), runs="runs")


def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_again(place):
    further = replace(TINY, name="longer", after=TINY)
    run(runs="runs")
    begun = place / "runs" / "longer" / FILE
    begun.mkdir(parents=True)
    config = replace(trial_of(select([KEY])[0], further).config, start_from="gone", out=str(begun))
    (begun / "config.json").write_text(config.to_json())
    shutil.copy(place / "runs" / "quick" / FILE / "config.json", place / "settings.json")
    start = {"config": json.loads((place / "settings.json").read_text())}
    (begun / "start.json").write_text(json.dumps(start))
    assert run(budget=further, runs="runs").done == [KEY]
    assert load_run(begun).config.start_from == "runs/quick/modelnet40-dgcnn-reqnn"


def test_it_waits_for_the_process_that_trains_what_it_begins_with(place):
    further = replace(TINY, name="longer", after=TINY)
    with locked(place / "runs" / "quick" / f"{FILE}.lock"):
        outcome = run(budget=further, runs="runs")
    assert (outcome.done, outcome.failed, list(outcome.elsewhere)) == ([], {}, [KEY])
    assert not (place / "runs" / "longer" / FILE).exists()


def test_a_run_that_has_begun_needs_nothing_of_what_came_before(place):
    further = replace(TINY, name="longer", after=TINY)
    run(budget=further, runs="runs")
    shutil.rmtree(place / "runs" / "quick")
    (place / "results" / "table4" / "longer" / f"{FILE}.json").unlink()
    assert run(budget=further, runs="runs").done == [KEY]
    assert not (place / "runs" / "quick").exists()


def test_a_run_that_is_stopped_goes_on_to_the_same_result(place, monkeypatch):
    assert run(out="whole", runs="whole-runs").done == [KEY]
    real = Training.end_epoch

    def slowly(self, epoch):
        real(self, epoch)
        while epoch == 1 and not timed_out.wait(0.01):
            pass

    timed_out = threading.Event()
    timer = threading.Timer(1.5, timed_out.set)
    timer.start()
    monkeypatch.setattr(Training, "end_epoch", slowly)
    outcome = run(minutes=1 / 60)
    timer.join()
    assert outcome.out_of_time
    assert outcome.done == []
    assert not (place / "results").exists()
    assert run().done == [KEY]
    whole, parts = (json.loads((place / out / "table4" / "quick" / f"{FILE}.json").read_text()) for out in ("whole", "results"))
    for same in ("upright", "rotated", "validation_accuracy", "best_epoch", "logit_spread"):
        assert whole[same] == parts[same]


def test_no_time_no_training(place):
    outcome = run(minutes=0)
    assert outcome.out_of_time
    assert not (place / "runs").exists()


def test_a_cell_that_another_process_is_at_is_left_to_it(place):
    with locked(place / "runs" / "table4" / "quick" / f"{FILE}.lock"):
        outcome = run(KEY, "modelnet40/dgcnn/original")
    assert outcome.elsewhere == {KEY: f"{os.uname().nodename}, process {os.getpid()}"}
    assert outcome.done == ["modelnet40/dgcnn/original"]


def test_a_cell_that_another_process_finishes_meanwhile_is_not_run_again(place, monkeypatch):
    run()
    real, calls = running.read_result, []

    def not_yet(*arguments):
        calls.append(arguments)
        return None if len(calls) <= 2 else real(*arguments)

    monkeypatch.setattr(running, "read_result", not_yet)
    monkeypatch.setattr(running, "fit", None)
    assert run().done == []
    assert len(calls) == 3


def test_a_failure_does_not_stop_the_others(place):
    broken = replace(TINY, cells={"modelnet40/dgcnn/reqnn": {"options": {"k": 99}}})
    outcome = run("modelnet40/dgcnn", budget=broken)
    assert list(outcome.failed) == [KEY]
    assert "k = 99" in outcome.failed[KEY]
    assert len(outcome.done) == 2


def test_nor_does_one_that_nobody_expected(place, monkeypatch):
    fit = running.fit

    def out_of_memory(config, **given):
        if config.equivariant:
            raise RuntimeError("out of memory")
        return fit(config, **given)

    monkeypatch.setattr(running, "fit", out_of_memory)
    outcome = run("modelnet40/dgcnn")
    assert list(outcome.failed) == [KEY]
    said, _, file = outcome.failed[KEY].rstrip(")").partition(" (traceback: ")
    assert said == "RuntimeError: out of memory"
    assert "in out_of_memory" in Path(file).read_text()
    assert len(outcome.done) == 2
    monkeypatch.setattr(running, "fit", fit)
    assert run("modelnet40/dgcnn").done == [KEY]
    assert not Path(file).exists()


def test_missing_data_is_explained(place, monkeypatch):
    monkeypatch.setenv("REQNN_DATA", str(place / "nothing"))
    assert "modelnet40 is not on this machine" in run().failed[KEY]
    assert not (place / "runs" / "table4" / "quick" / FILE).exists()


def test_a_run_of_other_settings_is_not_gone_on_with(place):
    run()
    (place / "results" / "table4" / "quick" / f"{FILE}.json").unlink()
    with pytest.raises(InputError, match="holds a run with other settings: epochs 2, now 3"):
        run(budget=replace(TINY, settings={**TINY.settings, "epochs": 3}))
    assert run().done == [KEY]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stopped])
def test_ctrl_c_ends_it(place, monkeypatch, kind):
    def interrupted(*args, **kwargs):
        raise kind

    monkeypatch.setattr(running, "fit", interrupted)
    with pytest.raises(kind):
        run()
    assert not list((place / "runs").rglob("*.holder"))
