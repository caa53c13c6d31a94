"""Table 5: its rows, their settings, and training by its command."""

import pytest
import torch
from test_table4 import written

from experiments.harness.results import write_result
from experiments.paper import table5 as module
from experiments.paper.budgets import BUDGETS
from experiments.paper.contents import table5
from experiments.paper.experiments import Experiment
from experiments.paper.printed import TABLE5
from experiments.paper.table5_systems import SYSTEMS, System, select, trial_of
from reqnn.errors import InputError
from reqnn.models.registry import build_model
from written_shapes import TINY


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(module, "size_and_time", lambda trial: (1234, 0.002))


def test_ours_beside_the_papers(tmp_path):
    written(tmp_path, Experiment("modelnet40", "dgcnn", "reqnn"))
    written(tmp_path, Experiment("modelnet40", "pointnet2", "original"))
    trial = trial_of(System("PRIN", "prin"), TINY)
    values = {
        "upright": 0.7,
        "rotated": 0.6,
        "consistency": 0.5,
        "seconds": 60.0,
        "epochs": 2,
        "config": trial.config.to_dict(),
    }
    write_result(tmp_path, trial, {**values, "test": {"copies": 3, "limit": None}}, tmp_path / "no.csv")
    table = table5(tmp_path, TINY)
    rows = {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}
    assert rows["REQNN of DGCNN"][:5] == ["80.00", "80.00", "83.03", "83.03", "100.00"]
    assert rows["PointNet++"][:5] == ["90.00", "20.00", "89.82", "21.35", "10.00"]
    assert rows["PRIN"] == ["70.00", "60.00", "80.13", "68.85", "50.00", "1,234", "2.00", "32", "2"]
    assert rows["REQNN of PointConv"][:5] == ["–", "–", "", "", "–"]
    assert set(rows) >= set(TABLE5)
    assert "--only modelnet40/pointnet/original" in table.notes[-1]
    assert "modelnet40/prin" not in table.notes[-1]
    assert "84.57" in " ".join(table.notes)
    records = {record["method"]: record for record in table.records}
    assert records["REQNN of DGCNN"]["upright"] == 0.8
    assert records["REQNN of DGCNN"]["printed"] == [83.03, 83.03]
    assert records["DGCNN"]["upright"] is None


def test_the_fullest_budget_is_taken(tmp_path):
    assert table5(tmp_path).settings == {"budget": "reduced"}


@pytest.mark.parametrize("name", BUDGETS)
def test_every_network_takes_its_settings(name):
    for system in SYSTEMS:
        config = trial_of(system, BUDGETS[name]).config
        with torch.device("meta"):
            net = build_model(config.model, config.equivariant, **config.options)
        assert net.min_points <= config.points
        assert config.rules == ("full" if system.training == "reqnn-full" else "paper")
        assert config.protocol == "NR"


def test_rows_by_name():
    assert [one.name for one in select(["*/rscnn"])] == ["RS-CNN", "REQNN of RS-CNN", "REQNN of RS-CNN, rules full"]
    assert len(select([])) == len({one.key for one in SYSTEMS}) == len(SYSTEMS)
    with pytest.raises(InputError, match="--only modelnet40/rscn names no row of Table 5"):
        select(["modelnet40/rscn"])
