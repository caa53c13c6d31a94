from pathlib import Path

import pytest
import torch

from experiments.pictures.clouds import camera, draw_grid


@pytest.mark.parametrize("up", ["x", "y", "z"])
def test_the_vertical_axis_points_up(up: str) -> None:
    view = camera(up)
    torch.testing.assert_close(view @ view.T, torch.eye(3).double())
    assert float(torch.linalg.det(view)) == pytest.approx(1)
    axis = torch.zeros(3, dtype=torch.float64)
    axis["xyz".index(up)] = 1
    right, above, nearer = view @ axis
    assert abs(right) < 1e-12
    assert above > 0.9
    assert nearer > 0


def test_a_grid_with_rows_of_different_lengths(tmp_path: Path) -> None:
    clouds = [torch.randn(30, 3) for _ in range(3)]
    path = tmp_path / "made" / "grid.png"
    words = {"titles": ["a", "b"], "names": ["first", "second"], "captions": [["x", ""], []], "colours": ["#123456", "#654321"]}
    assert draw_grid([clouds[:2], clouds[2:]], path, title="all", **words) == path
    assert path.stat().st_size > 5000
