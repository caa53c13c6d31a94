"""What only full quaternions have: mirror images told apart, an ordinary end, pure coordinates."""

import pytest
import torch

from reqnn.models import list_models
from reqnn.models.registry import model_entry
from reqnn.train.prediction import recalibrate
from reqnn.zoo import create_model
from rules.zoo import CLASSIFIERS, small
from surfaces import surfaces


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_mirror_image_gives_other_features(name):
    """And without triple products, frames aside, it cannot be told from the original: the negative control."""
    points = surfaces().double()
    mirrored = points * torch.tensor([-1.0, 1.0, 1.0]).double()
    ours = small("full", name).double()
    recalibrate(ours, [points])
    change = (ours.eval()(points) - ours(mirrored)).abs().max()
    assert change > 1e-3
    handless = small("full", name, handed=False).double()
    recalibrate(handless, [points])
    if "coordinates" not in model_entry(name).recipe:  # coordinates are read in a right-handed frame
        assert (handless.eval()(points) - handless(mirrored)).abs().max() < 1e-9


def test_real_parts_end_in_the_ordinary_network():
    """DGCNN turns real a layer sooner than by the paper's rules."""
    assert small("full", "dgcnn").report.to_real == ["conv5"]
    assert create_model("dgcnn", equivariant=True, width=1 / 8, k=6).report.to_real == ["conv6"]


@pytest.mark.parametrize("name", ["dgcnn", "pointnet2", *sorted(set(list_models(revisable=True)) - set(CLASSIFIERS))])
def test_every_parameter_learns(name):
    """Also where the network ends in a cloud, whose points are pure quaternions."""
    net = small("full", name).train()
    net(surfaces()).square().sum().backward()
    assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []
