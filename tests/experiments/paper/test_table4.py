"""Table 4 from results: beside the paper's figures, with what is missing and what was reduced."""

import json
from dataclasses import replace

import pytest

from experiments.harness.results import write_result
from experiments.paper.budgets import BUDGETS, trial_of
from experiments.paper.contents import table4, table5
from experiments.paper.experiments import Experiment, experiments
from experiments.paper.printed import TABLE4, TABLE4_CORRECTED
from reqnn.errors import InputError
from written_shapes import TINY


def written(out, one, budget=TINY, **given):
    """A result that looks measured."""
    values = {
        "upright": 0.8 if one.training == "reqnn" else 0.9,
        "rotated": 0.8 if one.training == "reqnn" else 0.2,
        "consistency": 1.0 if one.training == "reqnn" else 0.1,
        "logit_change": 1e-5,
        "logit_spread": 1.5,
        "parameters": 1234,
        "epochs": 2,
        "seconds": 7200.0,
        "config": trial_of(one, budget).tested.to_dict(),
        "test": {"shapes": 100, "copies": budget.copies, "seed": 0, "limit": budget.test_shapes},
    }
    if budget.after is not None:
        values["began_with"] = {"weights": "", "config": trial_of(one, budget.after).config.without_folders()}
    if one.training == "reqnn":
        ties = {"neighbours": 4, "shapes": 100, "neighbourhoods": 3200, "tied": 31, "ambiguous": 2}
        values |= {"changed": [], "ambiguity": ties}
    return write_result(out, trial_of(one, budget), {**values, **given}, out / "no.csv")


@pytest.fixture
def full(tmp_path):
    for one in experiments():
        written(tmp_path, one)
    return tmp_path


def row(table, data, network, training):
    position = next(i for i, record in enumerate(table.records) if record["cell"] == f"{data}/{network}/{training}")
    return dict(zip(table.columns, map(str, table.rows[position]), strict=True))


def test_rows_stand_beside_the_papers(full):
    table = table4(full, TINY)
    assert len(table.rows) == 18
    found = row(table, "modelnet40", "dgcnn", "reqnn")
    assert (found["network"], found["data"], found["training"]) == ("DGCNN", "ModelNet40", "REQNN")
    assert (found["upright, %"], found["rotated, %"], found["same answer in all, %"]) == ("80.00", "80.00", "100.00")
    assert (found["paper, rotated"], found["corrected by its authors"]) == ("83.03", "84.57")
    assert (found["parameters"], found["training, hours"]) == ("1,234", "2.00")
    assert not table.differences
    for record in table.records:
        data, network, training = record["cell"].split("/")
        assert record["printed"] == float(TABLE4[data][network][training])
        assert record["corrected"] == float(TABLE4_CORRECTED[data][network][training])
        assert record["command"] == f"python -m experiments paper table4 --budget quick --only {record['cell']} --out {full}"


def test_the_caption_says_what_was_reduced_and_what_came_out(full):
    notes = " ".join(table4(full, TINY).notes)
    assert "points 32 (1024)" in notes
    assert "above both originals' in 6 of the 6 rows" in notes
    assert "0.00 on ModelNet40" in notes
    assert "of 3,200 neighbourhoods of 4 points in 100 test shapes 31 end in a tie and 2 stay ambiguous" in notes
    assert "not measured yet" not in notes
    assert "Not the same for all trainings" not in notes


def test_missing_cells_have_the_command_that_makes_them(full):
    (full / "table4" / "quick" / "3d-mnist-dgcnn-original.json").unlink()
    table = table4(full, TINY)
    found = row(table, "3d-mnist", "dgcnn", "original")
    assert (found["rotated, %"], found["paper, rotated"]) == ("–", "45.37")
    command = f"`python -m experiments paper table4 --budget quick --out {full} --only 3d-mnist/dgcnn/original`"
    assert table.notes[-1] == f"– not measured yet (1 of 18): {command}"
    assert "in 5 of the 5 rows" in " ".join(table.notes)


def test_nothing_measured(tmp_path):
    table = table4(tmp_path)
    assert table.settings == {"budget": "reduced"}
    assert table.notes[-1].endswith(f"`python -m experiments paper table4 --budget reduced --out {tmp_path}`")


def test_changed_shapes_are_listed_with_their_cause(tmp_path):
    one = Experiment("modelnet40", "dgcnn", "reqnn")
    change = {
        "shape": 17,
        "class": "chair",
        "answers": {"chair": 9, "stool": 1},
        "margin": 2e-4,
        "logit_change": 3e-3,
        "logit_change_float64": 1e-12,
        "cause": "rounding",
    }
    written(tmp_path, one, changed=[change] * 7)
    notes = " ".join(table4(tmp_path, TINY).notes)
    assert "7 of 100 shapes change their answer (rounding: 7)" in notes
    assert (
        "test shape 17 (chair): chair 9×, stool 1×; margin 2.0e-04, largest logit change 3.0e-03, in float64 1.0e-12" in notes
    )
    assert "the other 2 are listed in its result file" in notes


def test_settings_that_differ_within_a_row_are_admitted(tmp_path):
    budget = replace(TINY, cells={"modelnet40/dgcnn/reqnn": {"epochs": 9}})
    assert "Not the same for all trainings of a row: ModelNet40, DGCNN: epochs of reqnn." in table4(tmp_path, budget).notes


def test_results_of_another_budget_are_refused(full):
    with pytest.raises(InputError, match="was measured with other settings"):
        table4(full, replace(TINY, settings={**TINY.settings, "lr": 1.0}))
    with pytest.raises(InputError, match="no budget is named 'huge'"):
        table4(full, "huge")


def test_files(full, tmp_path):
    markdown, data = table4(full, TINY).write(tmp_path / "out")
    assert "| DGCNN | ModelNet40 | REQNN | 80.00 | 80.00 |  | 83.03 | 84.57 |" in markdown.read_text()
    assert json.loads(data.read_text())["rows"][0]["measured"]["rotated"] == 0.2


def test_the_budgets_that_ship_have_captions(tmp_path):
    for name in BUDGETS:
        assert table4(tmp_path, name).notes[0].startswith(f"Budget {name}: ")


def test_a_longer_run_with_other_settings_is_no_reason_not_to_show_the_table(tmp_path):
    reduced, longest = BUDGETS["reduced"], BUDGETS["longest"]
    for cell in experiments()[:2]:
        written(tmp_path, cell, reduced)
    written(tmp_path, experiments()[0], replace(longest, settings={**longest.settings, "lr": 1.0}))
    notes = " ".join(table4(tmp_path).notes)
    assert "Not shown: " in notes
    assert "lr 1.0, now 0.002" in notes


def test_longer_runs_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.paper.table5.size_and_time", lambda trial: (1234, 0.002))
    reduced, longest = BUDGETS["reduced"], BUDGETS["longest"]
    one = Experiment("modelnet40", "dgcnn", "reqnn")
    for cell in experiments()[:2]:
        written(tmp_path, cell, reduced)
    written(tmp_path, one, longest, epochs=32, rotated=0.7801, upright_as_trained=0.7711)
    table = table4(tmp_path)
    assert row(table, "modelnet40", "dgcnn", "reqnn")["longest run, rotated, %"] == "78.01 (longest)"
    assert row(table, "modelnet40", "dgcnn", "original")["longest run, rotated, %"] == ""
    assert table.settings == {"budget": "reduced"}
    notes = " ".join(table.notes)
    assert (
        "Longer: DGCNN on ModelNet40: REQNN, budget longest (256 of 1024 points, 0.25 of the width, the mean over 5 such "
        "samples, 32 epochs, 2.0 hours more than at the budget longer): 80.00 upright (77.11 by one sample), 78.01 rotated, "
        in notes
    )
    assert f"`{one.command('longest', str(tmp_path))}`" in notes
    assert "78.01" in " ".join(table5(tmp_path).notes)
    assert "Longer" not in " ".join(table4(tmp_path, "longest").notes)
