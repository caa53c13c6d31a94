import importlib.resources
from pathlib import Path

import pytest
import torch

import experiments.scanned_objects as making
from reqnn.cli import main
from reqnn.data import load, scanned, split_validation
from reqnn.data.scanned import COPIES, FOLDER, OBJECTS, scanned_objects
from reqnn.errors import InputError


def test_shapes_labels_and_scale():
    clouds = load("scanned", "test", points=64)
    assert clouds.points.shape == clouds.normals.shape == (190, 64, 3)
    assert clouds.points.dtype == torch.float32
    assert (clouds.name, clouds.split, clouds.up) == ("scanned", "test", "z")
    assert clouds.labels.tolist() == list(range(38)) * 5
    assert len(set(clouds.classes)) == len(clouds.classes) == 38
    assert {"teapot", "lion", "coffee mug"} <= set(clouds.classes)
    assert not any("_" in name for name in clouds.classes)
    assert torch.allclose(clouds.points.mean(1), torch.zeros(3), atol=1e-6)
    assert torch.allclose(clouds.points.norm(dim=-1).amax(1), torch.ones(190))


def test_it_ships_with_the_package_and_is_small():
    """No test of this folder sees REQNN_DATA; the wheel takes what `package-data` names."""
    assert OBJECTS.stat().st_size < 1.5e6
    assert OBJECTS.is_relative_to(Path(str(importlib.resources.files("reqnn"))))
    settings = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert "data/scanned_objects/*" in settings


def test_attribution_names_the_licence_and_every_object():
    text = (FOLDER / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "Google Scanned Objects" in text
    assert "creativecommons.org/licenses/by/4.0" in text
    listed = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert listed == list(scanned_objects().names)


def test_the_same_each_time_and_by_seed():
    first, again, other = (scanned("test", 32, seed=seed, copies=1).points for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(scanned("test", 32, copies=2).points[:38], first)


def test_values_are_fixed():
    """Numbers that published results depend on; a change here is a new data set."""
    cloud = scanned("train", 3, copies=1, cut=0.2).points[31]
    expected = [[-0.737804, -0.040059, 0.673825], [0.207845, 0.369147, -0.332633], [0.52996, -0.329088, -0.341192]]
    assert torch.allclose(cloud, torch.tensor(expected), atol=1e-6)


def test_splits_are_different_samplings():
    splits = [scanned(split, 32, copies=3).points for split in COPIES]
    every = torch.cat(splits).flatten(1)
    assert len(torch.unique(every, dim=0)) == 3 * 3 * 38
    train, validation = split_validation(scanned("train", 16, copies=10))
    assert set(validation.labels.tolist()) == set(train.labels.tolist()) == set(range(38))


def test_samplings_lie_on_their_object():
    objects = scanned_objects()
    clouds = scanned("test", 200, copies=1, noise=0.0, normalize=False)
    for cloud, label in zip(clouds.points, clouds.labels, strict=True):
        whole = torch.from_numpy(objects.points[label] * objects.radius[label])
        assert _distance(cloud, whole).max() < 1e-6
    assert 0.03 < objects.radius.min() < objects.radius.max() < 0.5  # household objects, in metres


def test_noise_has_its_size():
    clean, noisy = (scanned("test", 500, copies=1, noise=noise, normalize=False) for noise in (0.0, 0.02))
    radius = torch.from_numpy(scanned_objects().radius)[:, None, None]
    moved = (noisy.points - clean.points) / radius
    assert moved.std() == pytest.approx(0.02, rel=0.02)
    assert moved.mean().abs() < 1e-3
    assert torch.equal(noisy.normals, clean.normals)


def test_a_cut_removes_its_share_on_one_side_of_a_plane():
    """All points that are left: the missing ones are the share, and lie on one side of a plane."""
    kept = 4096 - round(0.2 * 4096)
    left = scanned("test", kept, copies=1, noise=0.0, cut=0.2, normalize=False)
    objects = scanned_objects()
    for label in (0, 13, 31):
        whole = torch.from_numpy(objects.points[label] * objects.radius[label])
        gone = _distance(whole, left.points[label]) > 1e-7
        assert int(gone.sum()) == pytest.approx(4096 - kept, abs=4)  # points that coincide count once
        assert _separable(whole[gone], whole[~gone])
    with pytest.raises(InputError, match=f"holds {kept} points; {kept + 1} are asked for"):
        scanned("test", kept + 1, copies=1, cut=0.2)


def test_a_training_set_has_cuts_of_every_size():
    clouds = scanned("train", 2000, copies=8, noise=0.0, cut=0.5, normalize=False)
    whole = torch.from_numpy(scanned_objects().points[17] * scanned_objects().radius[17])
    missing = [float((_distance(whole, cloud) > 0.02).double().mean()) for cloud in clouds.points[17::38]]
    assert min(missing) < 0.15
    assert 0.3 < max(missing) < 0.5


def test_the_set_with_cuts_has_its_name():
    clouds = load("scanned-cut", "test", points=32)
    assert clouds.name == "scanned-cut"
    assert torch.equal(clouds.points, scanned("test", 32, cut=0.2).points)


def test_info(capsys):
    assert main(["data", "info", "scanned", "--points", "16", "--split", "validation", "test"]) == 0
    shown = capsys.readouterr().out
    assert "teapot" in shown
    assert "are in 'validation', too" not in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "all"}, "split is 'all'; it is one of train, validation, test"),
        ({"points": 5000}, "coffee mug holds 4096 points; 5000 are asked for"),
        ({"points": 0}, "points is 0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"cut": 1.0}, "cut is 1.0"),
        ({"copies": 0}, "copies is 0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError, match=message):
        scanned(**{"split": "test", "points": 16, **options})


def test_it_can_be_made_again(real_data, tmp_path, monkeypatch):
    """The committed script gives the very file that ships."""
    monkeypatch.setattr(making, "FOLDER", tmp_path)
    monkeypatch.setattr(making, "OBJECTS", tmp_path / OBJECTS.name)
    making.main(real_data / "scanned_objects")
    for name in (OBJECTS.name, "ATTRIBUTION.md"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def _distance(first, second):
    """From each point of a cloud to the nearest of another; not by matrix products, which lose digits."""
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist").amin(1)


def _separable(first, second):
    """Whether a plane through space separates two sets: a linear program."""
    from scipy.optimize import linprog

    rows = torch.cat([torch.cat([-first, second]), torch.cat([torch.ones(len(first)), -torch.ones(len(second))])[:, None]], 1)
    scale = rows[:, :3].abs().max()
    rows[:, :3] /= scale
    found = linprog([0] * 4, A_ub=rows.double().numpy(), b_ub=[-1e-6] * len(rows), bounds=[(-1, 1)] * 3 + [(-2, 2)])
    return found.status == 0
