"""Results on disk: complete or not there, and never those of other settings."""

import json
from dataclasses import replace

import pytest

from experiments.harness.results import check_run, read_result, result_path, write_result
from experiments.paper.budgets import config_of, trial_of
from experiments.paper.experiments import Experiment
from reqnn.errors import InputError
from written_shapes import TINY

ONE = Experiment("modelnet40", "dgcnn", "reqnn")


def result(**given):
    test = {"shapes": 9, "copies": 3, "seed": 0, "limit": None}
    return {"config": config_of(ONE, TINY).to_dict(), "test": test, "upright": 0.5, **given}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "log.csv").write_text("epoch\n1\n")
    write_result(tmp_path, trial_of(ONE, TINY), result(), tmp_path / "log.csv")
    return tmp_path


def test_files(out):
    folder = out / "table4" / "quick"
    assert sorted(path.name for path in folder.iterdir()) == ["modelnet40-dgcnn-reqnn.csv", "modelnet40-dgcnn-reqnn.json"]
    assert read_result(out, trial_of(ONE, TINY))["upright"] == 0.5
    assert read_result(out, trial_of(replace(ONE, training="original"), TINY)) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {**TINY.settings, "epochs": 7}}, "epochs 2, now 7"),
        ({"networks": {"dgcnn": {"options": {"k": 5}}}}, "k 4, now 5"),
        ({"copies": 10}, "copies 3, now 10"),
        ({"test_shapes": 4}, "test_shapes None, now 4"),
        ({"test_options": {"dgcnn": {"votes": 2}}}, "votes None, now 2"),
    ],
)
def test_results_of_other_settings_are_refused(out, change, message):
    with pytest.raises(InputError, match=f"{message}.*move this file and its run away"):
        read_result(out, trial_of(ONE, replace(TINY, **change)))


def test_settings_of_other_cells_may_change(out):
    changed = replace(TINY, cells={"3d-mnist": {"epochs": 9}, "modelnet40/dgcnn/original": {"epochs": 9}})
    assert read_result(out, trial_of(ONE, changed))["upright"] == 0.5


def test_where_and_how_it_was_run_may_change(out):
    path = result_path(out, trial_of(ONE, TINY))
    path.write_text(json.dumps(result(config={**config_of(ONE, TINY, "elsewhere").to_dict(), "threads": 64, "workers": 3})))
    assert read_result(out, trial_of(ONE, TINY))["upright"] == 0.5


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"config": {"epochs": "many"}}'])
def test_a_damaged_result_is_named(out, text):
    result_path(out, trial_of(ONE, TINY)).write_text(text)
    with pytest.raises(InputError, match=r"modelnet40-dgcnn-reqnn\.json"):
        read_result(out, trial_of(ONE, TINY))


def test_a_run_with_other_settings_is_refused(tmp_path):
    one = trial_of(ONE, TINY)
    check_run(tmp_path, one)
    (tmp_path / "config.json").write_text(one.config.to_json())
    check_run(tmp_path, replace(one, config=replace(one.config, out="here", threads=3)))
    with pytest.raises(InputError, match=r"epochs 2, now 3\. Move it away, or name another folder with --runs"):
        check_run(tmp_path, replace(one, config=replace(one.config, epochs=3)))


def test_what_a_run_began_with_matters_and_not_where_it_was(tmp_path):
    one = trial_of(ONE, TINY)
    (tmp_path / "config.json").write_text(replace(one.config, start_from="there").to_json())
    with pytest.raises(InputError, match="start_from 'there', now None"):
        check_run(tmp_path, one)
    further = replace(one, after=one)
    with pytest.raises(InputError, match="epochs of what it begins with 100, now 2"):  # nothing is known
        check_run(tmp_path, further)
    (tmp_path / "start.json").write_text(json.dumps({"config": one.config.without_folders()}))
    check_run(tmp_path, further)
    started = replace(one.config, start_from="elsewhere").without_folders()
    (tmp_path / "start.json").write_text(json.dumps({"config": started}))
    with pytest.raises(InputError, match="start_from of what it begins with 'elsewhere', now None"):
        check_run(tmp_path, further)
    check_run(tmp_path, replace(one, after=further))  # which goes on with another's weights itself
    other = replace(one, config=replace(one.config, lr=0.5))
    with pytest.raises(InputError, match=r"lr of what it begins with 0\.003, now 0\.5"):
        check_run(tmp_path, replace(one, after=other))


def test_so_it_does_for_results(out):
    one = trial_of(ONE, TINY)
    written = json.loads(result_path(out, one).read_text())
    written["began_with"] = {"config": one.config.without_folders()}
    write_result(out, one, written, out / "log.csv")
    assert read_result(out, replace(one, after=one))["upright"] == 0.5
    with pytest.raises(InputError, match="lr of what it begins with"):
        read_result(out, replace(one, after=replace(one, config=replace(one.config, lr=0.5))))
