"""Embeddings: of clouds and files, the same in every pose, in the order in which they were given."""

import importlib.util
import sys

import numpy as np
import pytest
import torch

import reqnn
from experiments.retrieval import mean_average_precision
from reqnn import cli
from reqnn.data import surfaces


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = reqnn.create_model("dgcnn", equivariant=True, rules="full", width=0.125, k=6, num_classes=7).double()
    net.train()(surfaces(8, 48)[0])
    return net


def test_no_pose_changes_an_embedding(net):
    clouds = surfaces(5, 48, seed=1)[0]
    rotations = reqnn.quaternion.random_matrix(5, torch.Generator().manual_seed(0), torch.float64)
    a, b = reqnn.embed(clouds, net), reqnn.embed(9 * clouds[:, torch.randperm(48)] @ rotations.mT - 4, net, batch=2)
    assert net.training
    assert a.shape == (5, net.head.fc3.in_features)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
    assert (a[0] - a[1]).norm() > 1e-3 * a[0].norm()  # shapes differ
    logits = torch.nn.functional.linear(a, net.head.fc3.weight, net.head.fc3.bias)
    torch.testing.assert_close(logits, net.eval()(clouds))  # it is what the last layer is given
    net.train()


def test_clouds_of_different_sizes_keep_their_order(net):
    clouds = [surfaces(1, size, seed=size)[0][0] for size in (48, 30, 48, 21)]
    together = reqnn.embed(clouds, net)
    torch.testing.assert_close(together, torch.cat([reqnn.embed([cloud], net) for cloud in clouds]))


def test_what_cannot_be_embedded(net):
    with pytest.raises(reqnn.InputError, match=r"\(N, 3\) is needed"):
        reqnn.embed([torch.zeros(4, 2)], net)
    with pytest.raises(reqnn.InputError, match="no Linear"):
        reqnn.embed(torch.randn(2, 16, 3), torch.nn.Conv1d(16, 3, 1))


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_command(ending, tmp_path, capsys):
    if ending == "parquet" and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pip install 'reqnn[parquet]': pyarrow is missing")
    for seed, name in enumerate("ab"):
        np.save(tmp_path / f"{name}.npy", surfaces(1, 256, seed=seed)[0][0].numpy())
    (tmp_path / "broken.npy").write_text("no cloud")
    out = tmp_path / f"embeddings.{ending}"
    assert cli.main(["embed", str(tmp_path), "--out", str(out), "--network", "dgcnn-3d-mnist"]) == 1
    assert "broken.npy" in capsys.readouterr().err
    if ending == "npz":
        found = np.load(out)
    else:
        table = importlib.import_module("pyarrow.parquet").read_table(out)
        found = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    assert [str(file)[-5:] for file in found["files"]] == ["a.npy", "b.npy"]
    assert found["embeddings"].shape[0] == 2
    assert np.abs(found["embeddings"][0] - found["embeddings"][1]).max() > 0


def test_a_missing_pyarrow_is_noticed_before_the_clouds_are_embedded(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("reqnn.deploy.embed", lambda *_: pytest.fail("embedded"))
    np.savetxt(tmp_path / "a.xyz", surfaces(1, 300)[0][0].numpy())
    assert cli.main(["embed", str(tmp_path / "a.xyz"), "--out", str(tmp_path / "e.parquet")]) != 0
    assert "reqnn[parquet]" in capsys.readouterr().err


def test_mean_average_precision_by_hand():
    queries = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.8, 0.6], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    # ranks of the relevant one: query 0 → 1st, 1 → 1st, 2 → (0.88 of 1, 0.8 of 0, 0.6 of 3) 3rd, 3 → 1st
    assert mean_average_precision(queries, queries, labels) == pytest.approx((1 + 1 + 1 / 3 + 1) / 4, abs=1e-6)
