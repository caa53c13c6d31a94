"""Models by name, and what is passed on to `revise`."""

import pytest
import torch

from reqnn import zoo
from reqnn.errors import InputError
from reqnn.models import DGCNN, PointConv, PointNet, list_models, register
from reqnn.models.registry import example_points, model_entry
from reqnn.rules import get_rules
from reqnn.zoo import create_model

NAMES = [
    *("dgcnn", "dgcnn_parts", "kd_network", "plane_fit", "point2sequence", "pointconv"),
    "pointnet",
    *("pointnet2", "pointnet2_msg", "pointnet2_parts", "pointnet_parts", "pointnet_reconstruction", "pointnet_stn", "prin"),
    *("qe_capsule", "rscnn"),
]


@pytest.fixture
def calls(monkeypatch):
    """Record the calls of a stand-in for `reqnn.revision.revise`, which returns the model as it is."""
    recorded = []

    def revise(model, points, **recipe):
        recorded.append((model, points, recipe))
        return model

    monkeypatch.setattr(zoo, "revise", revise)
    return recorded


def test_list_models():
    assert list_models() == NAMES
    assert set(NAMES) - set(list_models(revisable=True)) == {"prin", "qe_capsule"}


def test_create_model_builds_what_the_name_says():
    assert isinstance(create_model("dgcnn", width=0.1), DGCNN)
    assert create_model("pointnet", width=0.1).stn is None
    assert create_model("pointnet_stn", width=0.1).stn is not None
    assert create_model("dgcnn", width=0.1, num_classes=7).head.fc3.out_features == 7


def test_unknown_name_gives_the_names_and_the_nearest():
    with pytest.raises(InputError, match=r"'dgcn'; the models are dgcnn, .*; did you mean dgcnn\?"):
        create_model("dgcn")


def test_unknown_option_gives_the_options_and_the_nearest():
    with pytest.raises(InputError, match=r"pointnet2 has no option 'npoints'; .*radius.*; did you mean npoint"):
        create_model("pointnet2", npoints=(8, 4))


def test_an_option_that_the_name_decides_cannot_be_set():
    with pytest.raises(InputError, match="pointnet has no option 'stn'"):
        create_model("pointnet", stn=True)


def test_a_name_is_registered_once():
    with pytest.raises(InputError, match="already registered: DGCNN"):
        register("dgcnn")(PointNet)


@pytest.mark.parametrize("name", NAMES)
def test_recipes_name_submodules_that_exist(name):
    recipe, net = model_entry(name).recipe, create_model(name, width=0.1)
    to_real = [recipe["to_real"]] if "to_real" in recipe else []
    for submodule in [*to_real, *recipe.get("coordinates", ()), *recipe.get("remove", ())]:
        assert isinstance(net.get_submodule(submodule), torch.nn.Module)


@pytest.mark.parametrize("name", NAMES)
def test_example_points_are_accepted_and_leave_the_random_state(name):
    net = create_model(name, width=1 / 32)
    before = torch.get_rng_state()
    points = example_points(net)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(points, example_points(net))
    assert points.shape[1] % 3
    with torch.no_grad():
        assert torch.isfinite(net(points)).all()


def test_equivariant_passes_the_recipe_on(calls):
    create_model("pointconv", equivariant=True, width=0.1, npoint=(40, 8), init="copy")
    model, points, recipe = calls.pop()
    assert isinstance(model, PointConv)
    assert model.sa1.mlp.convs[0].in_channels == 6
    assert model.sa1.weightnet.convs[0].bias is None
    assert points.shape == (2, 41, 3)
    assert recipe == {
        "init": "copy",
        "rules": get_rules("paper"),
        "vector_axis": -1,
        "to_real": "head.fc1",
        "check": False,
        "coordinates": ("sa1.weightnet", "sa2.weightnet", "sa3.weightnet"),
    }


def test_equivariant_takes_the_users_points_and_options(calls):
    points = torch.rand(2, 50, 3)
    create_model("pointconv", equivariant=True, width=0.1, points=points, absolute_xyz=False)
    model, given, _ = calls.pop()
    assert given is points
    assert model.sa1.mlp.convs[0].in_channels == 3


def test_equivariant_pointnet_loses_its_transformers(calls):
    create_model("pointnet_stn", equivariant=True, width=0.1)
    assert calls.pop()[2]["remove"] == ("stn", "fstn")
