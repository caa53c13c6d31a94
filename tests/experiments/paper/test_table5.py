"""Table 5 from the results of Table 4."""

from test_table4 import written

from experiments.paper.contents import table5
from experiments.paper.experiments import Experiment
from experiments.paper.printed import TABLE5
from written_shapes import TINY


def test_ours_beside_the_others(tmp_path):
    written(tmp_path, Experiment("modelnet40", "dgcnn", "reqnn"))
    written(tmp_path, Experiment("modelnet40", "pointnet2", "original"))
    table = table5(tmp_path, TINY)
    rows = {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}
    assert rows["REQNN of DGCNN (ours)"] == ["80.00", "80.00", "83.03", "83.03"]
    assert rows["PointNet++ (ours)"] == ["90.00", "20.00", "89.82", "21.35"]
    assert rows["REQNN of PointConv (ours)"] == ["–", "–", "", ""]
    assert rows["PRIN"] == ["", "", "80.13", "68.85"]
    assert {name.removesuffix(" (ours)") for name in rows} >= set(TABLE5)
    assert len(rows) == 6 + len(TABLE5) - 3
    assert "--only modelnet40/dgcnn/original" in table.notes[-1]
    assert "modelnet40/dgcnn/reqnn" not in table.notes[-1]
    assert "84.57" in " ".join(table.notes)


def test_records_are_numbers(tmp_path):
    written(tmp_path, Experiment("modelnet40", "dgcnn", "reqnn"))
    records = {record["method"]: record for record in table5(tmp_path, TINY).records}
    assert records["REQNN of DGCNN"]["upright"] == 0.8
    assert records["REQNN of DGCNN"]["printed"] == [83.03, 83.03]
    assert records["DGCNN"]["upright"] is None


def test_the_fullest_budget_is_taken(tmp_path):
    assert table5(tmp_path).settings == {"budget": "reduced"}
