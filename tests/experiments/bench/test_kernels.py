import json

import torch

from experiments.__main__ import main
from experiments.bench.kernels import (
    BALL,
    DENSITY,
    FEATURES,
    FPS,
    KD_TREE,
    KERNEL,
    KNN,
    ORDINARY,
    REFERENCE,
    all_ways,
)
from reqnn.data.surfaces import surfaces
from reqnn.kernels.run import switched


def clouds(batch, points):
    return surfaces(batch, points, 0, torch.float32)[0]


def test_the_command_times_all_ways_and_writes_a_table(tmp_path):
    options = ["--points", "40", "--batch", "2", "--repeats", "2", "--threads", "1"]
    assert main(["bench", *options, "--out", str(tmp_path)]) == 0
    records = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert list(dict.fromkeys(r["kernel"] for r in records)) == [FPS, KNN, FEATURES, BALL, DENSITY]
    for r in records:
        assert r["skipped"] is None
        assert len(r["seconds"]) == 2
        assert r["relative"]["median"] > 0
    assert [r["variant"] for r in records if r["kernel"] == KNN] == [KERNEL, REFERENCE, ORDINARY, KD_TREE]
    assert f"| {KNN} | 40 |" in (tmp_path / "bench.md").read_text()


def test_bad_numbers_are_refused(capsys):
    assert main(["bench", "--repeats", "0"]) == 2
    assert "above 0" in capsys.readouterr().err


def test_all_ways_find_the_same():
    ways = all_ways(clouds(2, 200))
    for kernel, calls in ways.items():
        found = calls[KERNEL]()
        with switched(False):
            reference = calls[REFERENCE]()
        torch.testing.assert_close(found, reference)
        if kernel == DENSITY:
            torch.testing.assert_close(found, calls[ORDINARY](), rtol=1e-3, atol=0)
        if kernel in (KNN, FEATURES):
            assert (found == calls[ORDINARY]()).float().mean() > 0.98
        if kernel == KNN:
            assert (found == torch.stack([torch.as_tensor(x) for x in calls[KD_TREE]()])).float().mean() > 0.98


def test_balls_of_the_tree_hold_the_same_points():
    calls = all_ways(clouds(1, 300))[BALL]
    ours, tree = calls[KERNEL]()[0], torch.as_tensor(calls[KD_TREE]()[0])
    tree = torch.where(tree == 300, tree[:, :1], tree)
    assert (ours == tree).float().mean() > 0.98
