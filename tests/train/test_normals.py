"""The task normals: loss, targets that follow their points and rotate, PCA normals, training that beats them, commands."""

import json
from dataclasses import replace

import pytest
import torch

from reqnn.cli import main
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import rotate_by
from reqnn.data.sets import SETS, NamedSet
from reqnn.data.surfaces import surfaces
from reqnn.errors import InputError
from reqnn.models.grouping import index_points, knn_point
from reqnn.quaternion import random_matrix
from reqnn.train import evaluate_normals, fit, pca_normals
from reqnn.train.batches import Batches, targets
from reqnn.train.task import Normals, line_angles

SMALL = {"model": "plane_fit", "task": "normals", "options": {"width": 1 / 8, "k": 12}, "points": 96, "batch": 4}
NOISY = {**SMALL, "equivariant": True, "rules": "full", "optimizer": "adamw", "lr": 0.01, "schedule": "onecycle", "epochs": 6}


def clouds(count, seed=0, split="train", points=96, noise=0.04):
    xyz, normals = surfaces(count, points, seed)
    xyz = xyz + noise * torch.randn(xyz.shape, generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(count) % 2
    return PointClouds(xyz.float(), labels, ("even", "odd"), "bumpy", split, normals=normals.float())


def test_the_loss_has_no_sign_or_length():
    task = Normals()
    normals = torch.nn.functional.normalize(torch.randn(2, 5, 3), dim=-1)
    assert task.loss(-3 * normals, normals, normals).item() == pytest.approx(0, abs=1e-6)
    across = torch.linalg.cross(normals, normals.roll(1, -1))
    assert task.loss(across, normals, normals).item() == pytest.approx(1, abs=1e-6)
    assert task.scores(across, normals, normals).tolist() == pytest.approx([90, 90])
    tilted = torch.tensor([[[1.0, 1.0, 0.0]]])
    assert line_angles(tilted, torch.tensor([[[-1.0, 0.0, 0.0]]])).item() == pytest.approx(45)
    with pytest.raises(InputError, match=r"returns \(2, 5\).*normals are vectors"):
        task.loss(torch.zeros(2, 5), normals, normals)


def test_wrong_settings_and_data(settings):
    with pytest.raises(InputError, match=r"point_dropout is .*; it must be 0 for normals"):
        settings(**SMALL, point_dropout=0.5)
    with pytest.raises(InputError, match=r"stretch is .*; it must be 0 for normals"):
        settings(**SMALL, stretch=0.5)
    with pytest.raises(InputError, match="bumpy has no normals"):
        targets(replace(clouds(4), normals=None), settings(**SMALL))


def test_normals_follow_their_points_and_rotate(settings):
    some = replace(clouds(8, noise=0.0))
    for changes in ({}, {"sampled_from": 90, "points": 40}, {"protocol": "AR", "scale": 0.5}):
        config = settings(**{**SMALL, **changes})
        points, normals = Batches(some, config)[0]
        assert points.shape == normals.shape == (4, config.points, 3)
        # The angle between a point and its normal, and the distance from the origin up to scale, are the same after it.
        for xyz, n in zip(points, normals, strict=True):
            found = (xyz * n).sum(-1) / xyz.norm(dim=-1)
            known = (some.points * some.normals).sum(-1) / some.points.norm(dim=-1)
            errors = (found[:, None, None] - known).abs().amin(2).amax(0)  # cloud: the worst of its points
            assert errors.min() < 1e-5
    rotated = Batches(some, settings(**SMALL, protocol="AR"))[0][1]
    assert not torch.allclose(rotated, Batches(some, settings(**SMALL))[0][1], atol=0.1)


def test_pca_normals_against_a_loop():
    xyz, normals = surfaces(1, 200, 0)
    found = pca_normals(xyz, 10)
    index = knn_point(10, xyz, xyz)
    for i in (0, 17, 101):
        near = index_points(xyz, index)[0, i]
        direction = torch.linalg.svd(near - near.mean(0))[2][-1]
        assert line_angles(found[0, i], direction) < 1e-4
    assert line_angles(found, normals).median() < 10
    assert (found * xyz).sum(-1).min() >= 0


def test_training_beats_pca_and_rotates(settings):
    """Noisy surfaces, trained upright: better than PCA normals of the same neighbours, and the same rotated."""
    run = fit(settings(**NOISY), clouds(64), clouds(8, seed=1), quiet=True)
    test = clouds(16, seed=2, split="test")
    upright, rotated = (evaluate_normals(run.model, test, protocol, 2) for protocol in ("NR", "AR"))
    assert upright.median < 0.95 * upright.pca_median
    assert rotated.median == pytest.approx(upright.median, abs=1e-3)
    assert rotated.change < 1e-2
    config = replace(run.config, equivariant=False, epochs=1, out=f"{run.folder}-ordinary")
    ordinary = fit(config, clouds(64), clouds(8, seed=1), quiet=True)
    assert evaluate_normals(ordinary.model, test, "AR", 2).change > 0.1
    matrices = random_matrix(16, torch.Generator().manual_seed(0), torch.float64)
    net, points = run.model.double(), test.points.double()
    with torch.no_grad():
        difference = net(rotate_by(points, matrices)) - rotate_by(net(points), matrices)
    assert difference.norm(dim=-1).quantile(0.99) < 1e-8


def test_the_commands(monkeypatch, tmp_path, capsys):
    def embedded(request):
        return clouds({"train": 20, "test": 4}[request.split], len(request.split), request.split, request.points)

    monkeypatch.setitem(SETS, "bumpy", NamedSet("bumpy", "", embedded=embedded))
    out = str(tmp_path / "run")
    words = ["--task", "normals", "--equivariant", "--data", "bumpy", "--points", "64", "--epochs", "1", "--accelerator", "cpu"]
    assert main(["train", *words, "--options", json.dumps(SMALL["options"]), "--out", out]) == 0
    assert "angle" in capsys.readouterr().out
    assert main(["eval", out, "--copies", "2"]) == 0
    assert "PCA" in capsys.readouterr().out
    assert (tmp_path / "run" / "evaluation" / "normals.png").stat().st_size > 1000
    report = json.loads((tmp_path / "run" / "evaluation" / "evaluation.json").read_text())
    assert report["runs"][0]["results"][1]["neighbours"] == 12
