"""Which budget a table shows."""

from dataclasses import replace

from experiments.harness.results import write_result
from experiments.paper.budgets import BUDGETS, config_of, trial_of
from experiments.paper.experiments import Experiment
from experiments.paper.results import fullest_budget

ONE = Experiment("modelnet40", "dgcnn", "reqnn")


def result():
    test = {"shapes": 9, "copies": 10, "seed": 0, "limit": None}
    return {"config": config_of(ONE, BUDGETS["quick"]).to_dict(), "test": test, "upright": 0.5}


def test_the_budget_with_the_most_results(tmp_path):
    out = tmp_path
    write_result(out, trial_of(ONE, BUDGETS["quick"]), result(), out / "none.csv")
    assert fullest_budget(out).name == "quick"
    assert fullest_budget(out / "none").name == "reduced"
    write_result(out, trial_of(ONE, BUDGETS["full"]), result(), out / "none.csv")
    assert fullest_budget(out).name == "full"
    write_result(out, trial_of(replace(ONE, training="original"), BUDGETS["quick"]), result(), out / "none.csv")
    assert fullest_budget(out).name == "quick"
