"""Every registered model as an ordinary network: shapes, gradients, options, and what it does not have."""

import pytest
import roma
import torch

from reqnn.auditing import audit
from reqnn.errors import InputError
from reqnn.models import PointConv, list_models
from reqnn.models.grouping import farthest_point_sample, index_points, knn_point, voting_samples
from reqnn.models.registry import model_entry
from reqnn.zoo import create_model

SMALL = {"width": 1 / 16, "npoint": (24, 12), "nsample": (8, 6), "k": 6}
SMALL_OF = {
    "kd_network": {"depth": 5},
    "point2sequence": {"npoint": 24, "nsample": (4, 6, 8, 12)},
    "pointnet2_msg": {"nsample": ((4, 6, 8), (4, 6, 8)), "radius": ((0.4, 0.6, 0.9), (0.6, 0.9, 1.2))},
    "prin": {"bandwidth": 4, "shells": 4},
    "qe_capsule": {"npoint": 8, "nsample": 6, "neighbours": 10},
    "rscnn": {"radius": (0.5, 0.9)},
}
SAMPLING_512 = ["pointconv", "pointnet2", "pointnet2_msg", "pointnet2_parts", "rscnn"]
SAMPLING = [*SAMPLING_512, "kd_network", "point2sequence"]
INVARIANT = ["qe_capsule"]
DEAD = {"sequence.decoder.state.weight"}  # Point2Sequence's decoder makes one step, from a state of zeros
PER_POINT = ["dgcnn_parts", "pointnet2_parts", "pointnet_parts"]
CLOUDS = {
    "plane_fit": 40,
    "pointnet_reconstruction": 40,
}  # networks that give vectors, and how many


def small(name, **options):
    """Return a small model of that name and a batch of clouds that it takes."""
    given = SMALL | SMALL_OF.get(name, {}) | options
    torch.manual_seed(0)
    net = create_model(name, num_classes=5, **{k: v for k, v in given.items() if k in model_entry(name).options})
    return net, torch.rand(3, 40, 3, generator=torch.Generator().manual_seed(1)) - 0.5


def settled(name, **options):
    """Return a small model in eval mode whose batch-norms have seen data, so that logits differ between clouds."""
    net, points = small(name, **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # T-Nets leave the identity, where they start
        for _ in range(20):
            net(points)
    return net.eval(), points


@pytest.mark.parametrize("name", list_models())
def test_forward_shape(name):
    net, points = small(name)
    expected = (3, CLOUDS[name], 3) if name in CLOUDS else (3, 40, 5) if name in PER_POINT else (3, 5)
    for mode in (True, False):
        out = net.train(mode)(points)
        assert out.shape == expected
        assert torch.isfinite(out).all()


@pytest.mark.parametrize("name", list_models())
def test_gradients_reach_every_parameter(name):
    net, points = small(name, dropout=0.0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    (net(points) ** 2).sum().backward()
    for parameter_name, parameter in net.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        if parameter.dim() > 1 and parameter_name not in DEAD:
            assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", sorted({*list_models()} - {*INVARIANT}))
def test_rotation_changes_the_output_of_the_ordinary_network(name):
    net, points = settled(name)
    rotation = roma.rotvec_to_rotmat(torch.tensor([0.3, -1.1, 0.7]))
    out, rotated = net(points), net(points @ rotation.T)
    if name in CLOUDS:
        out = out @ rotation.T
    assert (out - rotated).abs().max() > 1e-2 * out.abs().max()


@pytest.mark.parametrize("name", SAMPLING)
def test_order_of_points_changes_the_output_where_points_are_sampled(name):
    net, points = settled(name)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    assert (net(points) - net(points[:, order])).abs().max() > 1e-3


@pytest.mark.parametrize("name", sorted({*list_models()} - {*SAMPLING, *PER_POINT, "plane_fit", "pointnet_reconstruction"}))
def test_order_of_points_is_without_effect_where_none_are_sampled(name):
    net, points = settled(name)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(net(points), net(points[:, order]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list_models())
def test_torch_export_traces_it(name):
    net, points = settled(name)
    exported = torch.export.export(net, (points,)).module()
    torch.testing.assert_close(exported(points), net(points))


@pytest.mark.parametrize("name", SAMPLING_512)
def test_too_few_points_say_which_option_to_set(name):
    net = create_model(name, width=1 / 16)
    with pytest.raises(InputError, match=r"npoint = 512 .* only N = 256.*npoint=\.\.\."):
        net(torch.zeros(2, 256, 3))


def test_dgcnn_with_fewer_points_than_k():
    with pytest.raises(InputError, match=r"k = 20 .* only N = 12.*k=\.\.\."):
        create_model("dgcnn", width=1 / 16)(torch.zeros(2, 12, 3))


# Network → the least `sample` it takes as `small`, and how it says so.
ON_A_SAMPLE = {
    "dgcnn": (6, "k=6, the neighbours of each"),
    "pointconv": (24, "24, the largest of npoint and nsample"),
    "pointnet2": (24, "npoint=24"),
    "pointnet2_msg": (24, "npoint=24"),
}


def differ(one, two):
    """By more than rounding: untrained networks hardly tell clouds apart."""
    return (one - two).abs().max() > 1e-3 * one.std(0).max()


@pytest.mark.parametrize("name", ON_A_SAMPLE)
def test_on_the_farthest_points(name):
    """It answers for the sampled points alone, whatever the others are."""
    net, points = settled(name, sample=28)
    chosen = index_points(points, farthest_point_sample(points, 28))
    plain, _ = small(name)
    plain.load_state_dict(net.state_dict())
    torch.testing.assert_close(net(points), plain.eval()(chosen))
    assert differ(net(points), plain(points))
    with pytest.raises(InputError, match=r"sample = 28 .* only N = 26.*sample=\.\.\."):
        net(points[:, :26])
    least, limit = ON_A_SAMPLE[name]
    for wrong in (least - 1, float(least), str(least), True):
        with pytest.raises(InputError, match=f"sample={wrong!r}: give a whole number of points, at least {limit}"):
            small(name, sample=wrong)


def test_dgcnn_with_a_stem():
    """The first layer reads points that were not sampled; with as many sampled points as there are, it is that of no stem."""
    net, points = settled("dgcnn", sample=16, stem=8)
    seen = []
    net.conv1[0].register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    net(points)
    centres = index_points(points, farthest_point_sample(points, 16))
    offsets = index_points(points, knn_point(8, points, centres)) - centres.unsqueeze(2)
    torch.testing.assert_close(seen[0][:, :3], offsets.permute(0, 3, 1, 2))
    torch.testing.assert_close(seen[0][:, 3:], centres.transpose(1, 2).unsqueeze(3).expand(-1, -1, -1, 8))
    whole, plain = (small("dgcnn", sample=40, stem=stem)[0].eval() for stem in (6, None))
    torch.testing.assert_close(whole(points), plain(points))
    with pytest.raises(InputError, match=r"stem = 50 .* only N = 40.*stem=\.\.\."):
        small("dgcnn", sample=16, stem=50)[0](points)
    for wrong in (0, 8.0, True):
        with pytest.raises(InputError, match=f"stem={wrong!r}: give a whole number, at least 1"):
            create_model("dgcnn", sample=16, k=6, stem=wrong)
    with pytest.raises(InputError, match="stem=8: set sample="):
        create_model("dgcnn", k=6, stem=8)


@pytest.mark.parametrize("name", ON_A_SAMPLE)
def test_votes(name):
    """The mean over the samples, in eval mode; one sample in training, and of clouds without a point to spare."""
    net, points = settled(name, sample=28, votes=3, dropout=0.0)
    plain, _ = small(name)
    plain.load_state_dict(net.state_dict())
    answers = [plain.eval()(sample) for sample in voting_samples(points, 28, 3)]
    torch.testing.assert_close(net(points), sum(answers) / 3)
    assert differ(net(points), answers[0])
    single, _ = small(name, sample=28, dropout=0.0)
    single.load_state_dict(net.state_dict())
    torch.testing.assert_close(net.eval()(points[:, :28]), single.eval()(points[:, :28]))
    assert differ(net(points[:, :29]), single(points[:, :29]))
    torch.testing.assert_close(net.train()(points), single.train()(points))
    for wrong in (0, 2.0, True):
        with pytest.raises(InputError, match=f"votes={wrong!r}: give a whole number, at least 1"):
            small(name, sample=28, votes=wrong)
    with pytest.raises(InputError, match="votes=2: set sample="):
        small(name, votes=2)


EXTRAS = pytest.mark.parametrize("extra", [{}, {"votes": 3}, {"votes": 2, "stem": 8}], ids=str)


def audit_on_the_farthest_points(name, extra, modes=("eval", "train"), **options):
    wide = {"bandwidth": (0.5, 1.0, 2.0)}  # so that densities differ from point to point
    given = {k: v for k, v in (SMALL | SMALL_OF.get(name, {}) | wide).items() if k in model_entry(name).options}
    net = create_model(name, sample=28, **given, **extra, **options).double()
    points = torch.randn(4, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return audit(net, points, rotations=2, permutations=1, vector_axis=-1, modes=modes)


@EXTRAS
@pytest.mark.parametrize("rules", ["paper", "vector-neurons", "full"])
def test_dgcnn_on_the_farthest_points_keeps_its_answers(rules, extra):
    modes = ("eval",) if extra == {"votes": 3} else ("eval", "train")  # votes are of eval mode alone
    assert audit_on_the_farthest_points("dgcnn", extra, modes, equivariant=True, rules=rules).ok


@pytest.mark.parametrize("name", ["pointconv", "pointnet2"])
@pytest.mark.parametrize("rules", ["paper", "full"])
def test_votes_of_farthest_points_keep_their_answers(rules, name):
    assert audit_on_the_farthest_points(name, {"votes": 3}, ("eval",), equivariant=True, rules=rules).ok


@pytest.mark.parametrize(
    ("name", "extra"), [("dgcnn", {"votes": 2, "stem": 8}), *((name, {"votes": 3}) for name in ON_A_SAMPLE)]
)
def test_ordinary_networks_on_the_farthest_points_do_not(name, extra):
    assert not audit_on_the_farthest_points(name, extra, modes=("eval",)).ok


def test_pointconv_with_more_neighbours_than_points():
    net, points = small("pointconv", nsample=(8, 30))
    with pytest.raises(InputError, match="nsample = 30"):
        net(points)
    net, points = small("pointconv", nsample=(50, 6))
    with pytest.raises(InputError, match="nsample = 50"):
        net(points)


@pytest.mark.parametrize("name", list_models())
def test_input_without_a_batch(name):
    net, points = small(name)
    with pytest.raises(InputError, match=r"\(40, 3\); expected \(B, N, 3\)"):
        net(points[0])


def test_width_must_be_positive():
    with pytest.raises(InputError, match="width=0"):
        create_model("dgcnn", width=0)


def test_dgcnn_batch_norms_are_the_ones_in_its_blocks():
    net, _ = small("dgcnn")
    assert all(getattr(net, f"conv{i}")[1] is getattr(net, f"bn{i}") for i in range(1, 7))


def test_pointconv_weightnet_takes_differences_times_the_density_scale():
    net, points = small("pointconv")
    seen = {}
    for name in ("densitynet", "weightnet"):
        net.sa3.get_submodule(name).register_forward_hook(lambda m, i, o, name=name: seen.update({name: (i[0], o)}))
    net.sa3.register_forward_hook(lambda m, i, o: seen.update(xyz=i[0]))
    net(points)
    differences = seen["xyz"] - seen["xyz"].mean(dim=1, keepdim=True)
    expected = differences.transpose(1, 2) * seen["densitynet"][1]
    torch.testing.assert_close(seen["weightnet"][0].squeeze(-1), expected)


def test_dead_parameters_leave_the_output_alone():
    options = {"width": 1 / 16, "npoint": (24, 12), "nsample": (8, 6)}
    plain, dead = PointConv(**options).eval(), PointConv(**options, dead_parameters=True).eval()
    missing, unexpected = dead.load_state_dict(plain.state_dict(), strict=False)
    assert all(name.startswith("dead_") for name in missing)
    assert not unexpected
    points = torch.rand(2, 32, 3)
    assert torch.equal(plain(points), dead(points))
