"""The audit of Table 5's networks: rotations of spectra, changes in units of differences, and what is exact."""

import math

import pytest
import torch

from experiments.comparators.change import change, moved, reordered, rotated, rotations, verdict
from experiments.comparators.page import NETWORKS, page
from experiments.comparators.sources import capsule_errors, prin_errors, rotate_spectrum
from experiments.harness.table import Cell, Table
from experiments.paper.printed import TABLE5
from reqnn.models.so3 import SO3Transform
from surfaces import surfaces


def test_a_rotated_spectrum_is_that_of_the_rotated_signal():
    """Of polynomials of degree 2 on the sphere."""
    b = 3
    beta = (torch.arange(2 * b).double() + 0.5)[:, None] * math.pi / (2 * b)
    alpha = torch.arange(2 * b).double() * math.pi / b
    x = torch.stack([beta.sin() * alpha.cos(), beta.sin() * alpha.sin(), beta.cos().expand(2 * b, 2 * b)], -1)
    torch.manual_seed(0)
    linear, square = torch.randn(3).double(), torch.randn(3, 3).double()
    (rotation,) = rotations(1)

    def spectrum(points):
        values = points @ linear + torch.einsum("jai,ik,jak->ja", points, square, points)
        return SO3Transform(b).sphere(values[None, None])

    torch.testing.assert_close(rotate_spectrum(spectrum(x), rotation), spectrum(x @ rotation))
    assert (spectrum(x) - spectrum(x @ rotation)).abs().max() > 1e-2


def test_changes_are_in_units_of_differences():
    points = surfaces().double()
    assert change(lambda x: x.norm(dim=2).sort(1)[0], points, rotated(rotations(2))) < 1e-12
    assert change(lambda x: x.amax(1), points, reordered(2, points.shape[1])) == 0
    apart = torch.eye(4, 3).double()[:, None]
    assert change(lambda x: x[:, 0], apart, moved(2, by=math.sqrt(1.5))) == pytest.approx(1)  # as far as two of these
    assert [verdict(value) for value in (1e-12, 0.1, 0.9)] == ["exact", "approximate", "broken"]


def test_prin_and_qe_capsule_are_exact_in_part():
    found = prin_errors(surfaces().double(), 4, count=1)
    assert max(found["step, mean"], found["step, max"]) < 1e-9
    assert 1e-9 < found["signal, mean"] < found["points, mean"]
    capsules = capsule_errors(surfaces(points=64).double(), torch.float64, 12, count=1)
    assert max(capsules["given frames"], capsules["estimated frames"]) < 1e-9
    assert capsules["frames that change"] == 0
    flat = surfaces(points=64).double() * torch.tensor([1.0, 1.0, 0.0]).double()
    assert capsule_errors(flat, torch.float64, 12, count=1)["frames that change"] > 0.1


def test_the_page_has_all_systems():
    assert {name for name, _, _ in NETWORKS.values()} == {
        name.removesuffix(" network") for name in TABLE5 if "REQNN" not in name
    }
    text = page([Table("a", "What holds", ["network"], [[Cell("PRIN")]], [])])
    assert text.startswith("# The networks of Table 5")
    assert "## What holds" in text
