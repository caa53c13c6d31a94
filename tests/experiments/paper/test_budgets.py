"""Budgets: the paper's settings at the top, the same for original and REQNN, the special before the general."""

from dataclasses import replace

import pytest

from experiments.harness.trial import differing
from experiments.paper.budgets import BUDGETS, FULL, REDUCED, Budget, config_of, get_budget, reductions, trial_of
from experiments.paper.experiments import NETWORKS, TRAINING_SETTINGS, Experiment, experiments
from reqnn.errors import InputError
from reqnn.train import preset
from reqnn.train.run import build_network

ONE = Experiment("modelnet40", "dgcnn", "reqnn")


def test_full_is_the_paper():
    for one in experiments():
        given = {"data": one.data, **TRAINING_SETTINGS[one.training]}
        assert config_of(one, FULL) == preset("paper", one.network, **given)


def test_reduced_uses_all_shapes():
    assert REDUCED.test_shapes is None
    assert REDUCED.copies == 10
    for one in experiments():
        config = config_of(one, REDUCED)
        assert (config.points, config.limit) == (128, None)
        assert config.options["width"] <= 0.5


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_original_and_reqnn_have_the_same_settings(budget):
    for one in experiments():
        original = config_of(Experiment(one.data, one.network, "original"), budget)
        assert set(differing(config_of(one, budget), original)) <= {"equivariant", "protocol"}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_names_in_budgets_exist(budget):
    assert set(budget.networks) <= set(NETWORKS)
    keys = [one.key for one in experiments()]
    assert all(any(key == cell or key.startswith(f"{cell}/") for key in keys) for cell in budget.cells)


@pytest.mark.parametrize("name", ["quick", "reduced", "long", "longer", "longest"])
def test_networks_of_small_budgets_can_be_built(name):
    for network in NETWORKS:
        build_network(config_of(Experiment("modelnet40", network, "reqnn"), get_budget(name)), 40)


def test_the_special_goes_before_the_general():
    budget = Budget(
        name="x",
        summary="",
        settings={"epochs": 1, "lr": 0.5, "options": {"width": 0.5, "k": 3}},
        networks={"dgcnn": {"epochs": 2, "options": {"k": 4}}},
        cells={
            "modelnet40": {"epochs": 3, "batch": 8},
            "modelnet40/dgcnn": {"epochs": 4},
            "modelnet40/dgcnn/reqnn": {"epochs": 5, "rule_options": {"c": 2.0}},
        },
    )
    config = config_of(ONE, budget)
    assert (config.epochs, config.batch, config.lr, config.options) == (5, 8, 0.5, {"width": 0.5, "k": 4})
    assert config.rule_options == {"c": 2.0}
    assert config_of(replace(ONE, training="original"), budget).epochs == 4
    assert config_of(replace(ONE, data="3d-mnist"), budget).epochs == 2


def test_what_was_reduced_is_said():
    notes = " ".join(reductions(REDUCED, experiments()))
    assert "width 0.25 (1.0)" in notes
    assert "points 128 (1024)" in notes
    assert "k 10 (20)" in notes
    assert reductions(FULL, experiments()) == [f"Budget full: {FULL.summary}."]
    assert "Tested on 200 test shapes only." in reductions(BUDGETS["quick"], experiments())


@pytest.mark.parametrize(("name", "first"), [("longer", "long"), ("longest", "longer")])
def test_a_budget_that_goes_on_says_from_where(name, first):
    goes_on = BUDGETS[name]
    assert trial_of(ONE, goes_on).after == trial_of(ONE, BUDGETS[first])
    assert any(f"end of the budget {first}" in note for note in reductions(goes_on, experiments()))
    build = ("model", "options", "rules", "rule_options", "data")
    for one in experiments():  # weights fit only where the networks are built alike
        before, then = config_of(one, BUDGETS[first]), config_of(one, goes_on)
        assert all(getattr(before, field) == getattr(then, field) for field in build)


def test_differences_leave_out_what_decides_nothing():
    config = config_of(ONE, REDUCED)
    assert differing(config, replace(config, out="elsewhere", threads=7, workers=2, root="there")) == {}
    other = replace(config, epochs=1, options={**config.options, "k": 5})
    assert differing(config, other) == {"epochs": (config.epochs, 1), "k": (10, 5)}


def test_an_unknown_budget_lists_those_there_are():
    with pytest.raises(InputError, match="there are quick, reduced, long, longer, longest, wide, wider, full"):
        get_budget("huge")
