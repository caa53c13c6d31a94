"""Clouds on a Ray cluster of two machines, one of which is lost: every cloud is answered once."""

import hashlib
import importlib.util
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import reqnn
from experiments.lost_machine import two_machines
from reqnn import cli
from reqnn.data import surfaces
from reqnn.deploy.shards import Job, Shard, find_shards
from reqnn.pretrained import classify

pytest.importorskip("pyarrow", reason="shards are Parquet files: pip install 'reqnn[parquet]'")
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="pip install 'reqnn[ray]': ray is missing")
NET = "dgcnn.full.scanned"


def rows(folder):
    import pyarrow.parquet as pq

    parts = sorted(Path(folder).glob("*.parquet"))
    assert all(part.name.startswith("part-") for part in parts)
    found = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert pq.read_table(folder).num_rows == len(found)  # the folder is one table, also if a shard has no rows
    return found


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Six files, one of them broken; an HDF5 file of 10 clouds; a Parquet file of 7, one without points."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("scans")
    for i in range(5):
        np.save(folder / f"{i}.npy", surfaces(1, 300 + i, seed=i)[0][0].numpy())
    (folder / "broken.npy").write_text("no cloud")
    with h5py.File(folder / "ten.h5", "w") as file:
        file["data"] = surfaces(10, 280, seed=7)[0].float().numpy()
    clouds = [cloud.tolist() for cloud in surfaces(7, 290, seed=9)[0]]
    pq.write_table(pa.table({"points": [*clouds[:6], []]}), folder / "seven.parquet", row_group_size=3)
    return folder


def test_shards_hold_every_cloud_once(scans):
    shards = find_shards([str(scans)], 4)
    assert [len(shard.names) for shard in shards] == [4, 2, 4, 3, 4, 4, 2]
    assert len({name for shard in shards for name in shard.names}) == 23
    remote = find_shards([f"file://{scans}/*.npy"], 100)[0]
    assert remote.files[0] == f"file://{scans}/0.npy"
    read = list(remote.clouds(64, 0))
    assert torch.equal(read[0], reqnn.pretrained.cloud_in_any_pose(scans / "0.npy", 64))
    assert "file://" in read[-1]  # broken.npy
    with pytest.raises(reqnn.InputError, match="holds no cloud"):
        find_shards([str(scans / "nothing")], 4)


def test_rows_of_tables_are_read_across_row_groups(scans):
    shard = next(shard for shard in find_shards([str(scans / "seven.parquet")], 5))
    read = list(shard.clouds(290, 0))
    for found, cloud in zip(read, surfaces(7, 290, seed=9)[0][:5], strict=True):
        near = cloud - cloud.mean(0)
        expected = near / near.norm(dim=1).max()
        torch.testing.assert_close(found.sort(0).values, expected.sort(0).values)


def test_a_damaged_table_fails_as_a_whole(tmp_path):
    (tmp_path / "x.h5").write_text("nothing")
    (shard,) = find_shards([str(tmp_path)], 4)
    (reason,) = shard.clouds(64, 0)
    assert "x.h5 cannot be read" in reason


def test_a_job_is_continued_only_as_it_was(tmp_path):
    shards = [Shard(0, ("a.npy",)), Shard(1, ("b.npy",))]
    job = Job("predict", str(tmp_path / "out"), 64)
    assert job.begin(shards, NET) == shards
    job.write(shards[0], {}, {0: "lost"})
    assert job.begin(shards, NET) == shards[1:]
    job.write(shards[1], {0: {"classes": ["chair"], "probabilities": [1.0]}}, {})
    assert rows(job.out + "/results") == [{"files": "b.npy", "classes": ["chair"], "probabilities": [1.0]}]
    assert rows(job.out + "/failed") == [{"files": "a.npy", "errors": "lost"}]
    with pytest.raises(reqnn.InputError, match="another job"):
        job.begin(shards, "other")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with two_machines() as made:
            yield made


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_cloud_is_answered_once_though_a_machine_is_lost(cluster, scans, tmp_path, capsys):
    from reqnn.deploy import ray_engine

    made, nodes = cluster
    net = reqnn.load(NET)
    job, shards = Job("predict", str(tmp_path / "out"), 256, top=2), find_shards([str(scans)], 2)
    weights = hashlib.sha256(b"".join(x.numpy().tobytes() for x in net.state_dict().values())).hexdigest()
    used, answered, failed = [], 0, 0
    for done in ray_engine.answer_shards(job, net, job.begin(shards, f"{NET} {weights}"), workers=2):
        used.append(done.shard)
        answered, failed = answered + done.answered, failed + done.failed
        if len(used) == 2:
            made.remove_node(nodes[1], allow_graceful=False)
    assert sorted(used) == [shard.number for shard in shards]
    assert (answered, failed) == (21, 2)
    results, lost = rows(tmp_path / "out/results"), rows(tmp_path / "out/failed")
    counts = Counter(row["files"] for row in [*results, *lost])
    assert counts == Counter(name for shard in shards for name in shard.names)  # each exactly once
    assert sorted(Path(row["files"]).name for row in lost) == ["broken.npy", "seven.parquet#6"]
    expected = {answer["file"]: answer for answer in classify(net, [scans / "3.npy"], 256, 2)}
    (found,) = [row for row in results if row["files"] in expected]
    top = expected[found["files"]]["top"]
    assert found["classes"] == [one["class"] for one in top]
    assert found["probabilities"] == pytest.approx([one["probability"] for one in top], abs=1e-4)

    # the same job again computes what is missing only
    (tmp_path / "out/results/part-0000003.parquet").unlink()
    words = [str(scans), "--engine", "ray", "--out", str(tmp_path / "out"), "--shard", "2", "--points", "256", "--top", "2"]
    assert cli.main(["predict", *words, "--weights", NET, "--workers", "1"]) == 0
    assert f"{len(shards) - 1} of {len(shards)} shards were there" in capsys.readouterr().out
    assert rows(tmp_path / "out/results") == results


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_embeddings_by_the_command_of_another_process(cluster, scans, tmp_path):
    words = [str(scans / "ten.h5"), "--engine", "ray", "--out", str(tmp_path / "out"), "--shard", "4", "--workers", "1"]
    words += ["--network", NET, "--address", cluster[0].address]
    done = subprocess.run([sys.executable, "-m", "reqnn.cli", "embed", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "10 clouds answered, 0 failed" in done.stdout
    found = np.array([row["embeddings"] for row in rows(tmp_path / "out/results")])
    net = reqnn.load(NET)
    whole = [cloud for shard in find_shards([str(scans / "ten.h5")], 100) for cloud in shard.clouds(net.card["points"], 0)]
    np.testing.assert_allclose(found, reqnn.embed(whole, net).numpy(), atol=1e-4 * np.abs(found).max())


def test_a_folder_is_needed(capsys):
    assert cli.main(["predict", "a.npy", "--engine", "ray"]) == 2
    assert "--out FOLDER" in capsys.readouterr().err
