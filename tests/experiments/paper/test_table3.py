"""Table 3: which network contains which operation, as `revise` meets it."""

import sys
from types import SimpleNamespace

from experiments.paper.contents import table3
from experiments.paper.printed import NETWORKS, TABLE3
from reqnn.rules import TABLE1


def test_operations_are_as_the_paper_prints_them():
    table = table3(width=0.125)
    assert table.differences == []
    assert [record["operation"] for record in table.records] == list(TABLE1)
    for record in table.records:
        assert tuple(n for n in NETWORKS if record[n]["contains"]) == TABLE3[record["operation"]]


def test_a_missing_and_a_surplus_operation_are_marked(monkeypatch):
    """What the report does not hold is not printed, whatever the paper says."""
    everything_but = SimpleNamespace(report=SimpleNamespace(operations=[row for row in TABLE1 if row != "ReLU"]))
    monkeypatch.setattr(sys.modules[table3.__module__], "create_model", lambda *args, **options: everything_but)
    table = table3()
    assert "ReLU, DGCNN:  ≠ ✓" in table.differences
    assert "Max-pooling, PointConv: ✓ ≠ nothing" in table.differences
