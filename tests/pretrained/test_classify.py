"""The same file in any orientation gives the same points, and the same answer."""

import numpy as np
import pytest
import torch
import trimesh
from rotated_solids import rotations, solids

from reqnn.errors import InputError
from reqnn.pretrained import classify, cloud_in_any_pose, find_files, load


def write(path, vertices, faces=None):
    if faces is None:
        np.save(path, vertices) if path.suffix == ".npy" else np.savetxt(path, vertices)
    else:
        trimesh.Trimesh(vertices, faces, process=False).export(path)
    return path


@pytest.mark.parametrize("ending", [".ply", ".off", ".obj", ".stl"])
@pytest.mark.parametrize("name", ["box", "ball", "ring"])
def test_a_rotated_mesh_has_the_same_points_rotated(name, ending, tmp_path):
    vertices, faces = solids()[name]
    upright = cloud_in_any_pose(write(tmp_path / f"upright{ending}", vertices, faces), 256)
    assert upright.shape == (256, 3)
    assert upright.dtype == torch.float64
    assert upright.norm(dim=1).max() <= 1 + 1e-6
    for i, rotation in enumerate(rotations(4)):
        rotated = cloud_in_any_pose(write(tmp_path / f"rotated{i}{ending}", 3 * vertices @ rotation.T - 5, faces), 256)
        expected = upright.double() @ torch.from_numpy(rotation).T
        apart = (rotated.double() - expected).norm(dim=1)
        assert apart.median() < 1e-4
        assert (apart > 1e-3).sum() <= 2  # where rounding moves the border between two faces


@pytest.mark.parametrize("ending", [".npy", ".xyz", ".csv"])
def test_a_rotated_cloud_has_the_same_points_rotated(ending, tmp_path):
    vertices = np.random.default_rng(0).normal(size=(500, 3)) + 9
    upright = cloud_in_any_pose(write(tmp_path / f"upright{ending}", vertices), 64)
    for i, rotation in enumerate(rotations(4)):
        rotated = cloud_in_any_pose(write(tmp_path / f"rotated{i}{ending}", vertices @ rotation.T), 64)
        torch.testing.assert_close(rotated.double(), upright.double() @ torch.from_numpy(rotation).T, rtol=0, atol=1e-12)


def test_points_and_seed(tmp_path):
    path = write(tmp_path / "a.ply", *solids()["ring"])
    assert cloud_in_any_pose(path, 100).equal(cloud_in_any_pose(path, 200)[:100])
    assert not cloud_in_any_pose(path, 100, seed=1).equal(cloud_in_any_pose(path, 100))
    assert len(cloud_in_any_pose(path, 5000)) == 5000
    few = write(tmp_path / "few.npy", np.random.default_rng(0).normal(size=(20, 3)))
    assert len(cloud_in_any_pose(few, 64)) == 20
    with pytest.raises(InputError, match="points is 0"):
        cloud_in_any_pose(path, 0)


def test_answers_do_not_change_with_the_orientation(run_folder, tmp_path):
    net, files = load(run_folder), []
    for name, (vertices, faces) in solids().items():
        for i, rotation in enumerate(rotations(5)):
            files.append(write(tmp_path / f"{name}{i}.ply", vertices @ rotation.T, faces))
    answers = list(classify(net, files))
    assert [answer["file"] for answer in answers] == [str(file) for file in files]
    for first in range(0, 15, 5):
        group = answers[first : first + 5]
        for answer in group:
            assert answer["top"][0]["class"] == group[0]["top"][0]["class"]
            assert answer["top"][0]["probability"] == pytest.approx(group[0]["top"][0]["probability"], abs=1e-3)
            assert len(answer["top"]) == 5
            assert answer["points"] == 48
            shares = [one["probability"] for one in answer["top"]]
            assert shares == sorted(shares, reverse=True)
    everything = next(classify(net, files[:1], top=99))["top"]
    assert len(everything) == 10
    assert sum(one["probability"] for one in everything) == pytest.approx(1)


def test_bad_files_are_reported_in_their_place(run_folder, tmp_path):
    good = write(tmp_path / "good.ply", *solids()["box"])
    empty = tmp_path / "empty.off"
    empty.write_text("")
    few = write(tmp_path / "few.npy", np.random.default_rng(0).normal(size=(5, 3)))
    smaller = write(tmp_path / "smaller.npy", np.random.default_rng(0).normal(size=(30, 3)))
    files = [good, empty, tmp_path / "none.ply", few, smaller, good]
    answers = list(classify(load(run_folder), files))
    assert [("top" in one, one.get("points")) for one in answers] == [
        (True, 48),
        (False, None),
        (False, None),
        (False, None),
        (True, 30),
        (True, 48),
    ]
    for answer, reason in zip(answers[1:4], ("is empty", "cannot be read", "at least 8 points"), strict=True):
        assert reason in answer["error"]
    assert answers[0]["top"] == answers[5]["top"]


def test_folders_are_searched(tmp_path):
    for name in ("b/deep/x.ply", "a.OFF", "b/notes.md", "b/y.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / "b" / "y.npy", tmp_path]
    assert [str(path.relative_to(tmp_path)) for path in find_files(named)] == ["b/y.npy", "a.OFF", "b/deep/x.ply"]
    assert find_files(["not-there.ply"])[0].name == "not-there.ply"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no mesh or cloud"):
        find_files([tmp_path / "empty"])
