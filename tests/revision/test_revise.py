"""`reqnn.revise` on networks in many writing styles, none of which is changed for it."""

import copy
import io
import pickle
import types

import pytest
import torch
from torch import nn

import networks
import reqnn
from experiments.networks import pointnet
from networks import BATCH, CASES, classifiers, coordinates, dense_outputs, graph, set_abstraction, turn
from networks.checks import ORDER, ROTATIONS, calibrate, error, example, outputs, revised, spread
from reqnn import InputError, NoRuleError

TOLERANCE = 1e-9
BY_NAME = {case.name: case for case in CASES}


def parametrize(*names):
    """One test a network."""
    return pytest.mark.parametrize("case", [pytest.param(BY_NAME[name], id=name) for name in names or BY_NAME])


def test_there_are_enough_styles():
    assert len(CASES) >= 14
    assert len(BY_NAME) == len(CASES)


# -- every network -----------------------------------------------------------------------------------------------------


@parametrize()
def test_outputs_do_not_depend_on_the_orientation(case):
    net, inputs = revised(case), case.inputs()
    straight = outputs(net, inputs)
    for rotation in ROTATIONS:
        for i, (a, b) in enumerate(zip(straight, outputs(net, case.rotated(inputs, rotation)), strict=True)):
            expected = turn(a, case.vectors[i], rotation) if i in case.vectors else a
            assert error(expected, b) <= TOLERANCE


@parametrize()
def test_outputs_do_not_depend_on_the_order_of_the_points(case):
    net, inputs = revised(case), case.inputs()
    for i, (a, b) in enumerate(zip(outputs(net, inputs), outputs(net, case.reordered(inputs, ORDER)), strict=True)):
        expected = a.index_select(case.order[i], ORDER) if i in case.order else a
        assert error(expected, b) <= TOLERANCE


@parametrize()
def test_outputs_of_different_clouds_differ(case):
    net, inputs = revised(case), case.inputs()
    first = outputs(net, inputs)[0]
    assert torch.isfinite(first).all()
    assert spread(first) > 5e-3
    assert error(first, outputs(net, case.inputs(seed=2))[0]) > 5e-3


@parametrize()
def test_outputs_have_the_shapes_of_the_originals(case):
    inputs = case.inputs(dtype=torch.float32)
    original = case.model().eval()
    net = copy.deepcopy(revised(case)).float()
    expected, given = original(*case.inputs(dtype=next(original.parameters()).dtype)), net(*inputs)
    assert type(expected) is type(given)
    if isinstance(expected, dict):
        assert list(expected) == list(given)
    assert [x.shape for x in networks.flat(expected)] == [x.shape for x in networks.flat(given)]
    assert all(type(x) is torch.Tensor for x in networks.flat(given))


@parametrize()
def test_gradients_reach_every_parameter(case):
    net = copy.deepcopy(revised(case))
    given = networks.flat(net(*case.inputs()))
    generator = torch.Generator().manual_seed(3)
    loss = sum((x * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum() for x in given if x.requires_grad)
    loss.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@parametrize()
def test_the_ordinary_network_depends_on_the_orientation(case):
    net, inputs = calibrate(case.model().double(), case.inputs()), case.inputs()
    straight, turned = outputs(net, inputs)[0], outputs(net, case.rotated(inputs, ROTATIONS[0]))[0]
    expected = turn(straight, case.vectors[0], ROTATIONS[0]) if 0 in case.vectors else straight
    assert error(expected, turned) > 1e-3
    if case.sampled:
        moved = outputs(net, case.reordered(inputs, ORDER))[0]
        assert error(straight.index_select(case.order[0], ORDER) if 0 in case.order else straight, moved) > 1e-3


def functions():
    """Every function, class and method of the networks' Python modules, as objects."""
    found = {}
    for module in vars(networks).values():
        if isinstance(module, types.ModuleType) and module.__name__.startswith("networks."):
            for name, value in vars(module).items():
                found[module.__name__, name] = value
                if isinstance(value, type):
                    found |= {(module.__name__, name, key): member for key, member in vars(value).items()}
    return found


@parametrize()
def test_the_original_is_left_untouched(case):
    model = case.model()
    state = copy.deepcopy(model.state_dict())
    kinds = {name: (type(module), module.training, dict(module._forward_pre_hooks)) for name, module in model.named_modules()}
    before = functions()
    expected = outputs(copy.deepcopy(model).double().eval(), case.inputs())
    reqnn.revise(model, example(case), **case.options)
    assert all(torch.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(), strict=True))
    assert list(state) == list(model.state_dict())
    assert kinds == {
        name: (type(module), module.training, dict(module._forward_pre_hooks)) for name, module in model.named_modules()
    }
    after = functions()
    assert before.keys() == after.keys()
    assert all(before[key] is after[key] for key in before if key[-1] not in ("__dict__", "__weakref__"))
    assert all(torch.equal(a, b) for a, b in zip(expected, outputs(model.double().eval(), case.inputs()), strict=True))


@parametrize()
def test_copies_give_the_same_outputs(case):
    net, inputs = revised(case), case.inputs()
    expected = outputs(net, inputs)
    stream = io.BytesIO()
    torch.save(net, stream)
    stream.seek(0)
    copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.load(stream, weights_only=False)]
    for twin in copies:
        assert all(torch.equal(a, b) for a, b in zip(expected, outputs(twin, inputs), strict=True))
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(0.1)
        assert error(expected[0], outputs(twin, inputs)[0]) > 1e-6
    assert all(torch.equal(a, b) for a, b in zip(expected, outputs(net, inputs), strict=True))


@parametrize()
def test_the_state_dict_goes_into_another_revision(case):
    net, inputs = revised(case), case.inputs()
    other = reqnn.revise(case.model(seed=9), example(case), **case.options).double().eval()
    assert error(outputs(net, inputs)[0], outputs(other, inputs)[0]) > 1e-6
    other.load_state_dict(net.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(outputs(net, inputs), outputs(other, inputs), strict=True))


@parametrize()
def test_batches_and_clouds_of_other_sizes(case):
    net, inputs = revised(case), case.inputs()
    expected = outputs(net, inputs)
    for a, b in zip(expected, outputs(net, tuple(x[1:2] for x in inputs)), strict=True):
        assert b.shape == (1, *a.shape[1:])
        assert error(a[1:2], b) <= TOLERANCE
    fewer = tuple(x if axis is None else x.narrow(3 - axis, 0, 20) for x, axis in zip(inputs, case.axes, strict=True))
    assert all(torch.isfinite(x).all() for x in outputs(net, fewer))


@parametrize()
def test_training_mode_and_a_step(case):
    model = case.model()
    net = reqnn.revise(model, example(case), **case.options)
    inner = model.module if isinstance(model, nn.DataParallel) else model
    assert net.training is net.model.training is inner.training
    net.train()
    assert all(module.training for module in net.modules())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    given = networks.flat(net(*case.inputs(dtype=next(net.parameters()).dtype)))
    sum(x.square().mean() for x in given if x.requires_grad).backward()
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer.step()
    assert any(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(torch.isfinite(parameter).all() for parameter in net.parameters())
    assert not any(module.training for module in net.eval().modules())


@parametrize()
def test_the_report_and_the_parameters_agree(case):
    model, net = case.model(), revised(case)
    report = net.report
    assert report.parameters_before == sum(p.numel() for p in model.parameters())
    assert report.parameters_after == sum(p.numel() for p in net.parameters())
    text = str(report)
    assert text.splitlines()[0].split() == ["layer", "operation", "rule", "gives"]
    assert f"{report.parameters_before:,} → {report.parameters_after:,}" in text
    assert "Convolution" in report.operations or case.name == "einsum"
    names = dict(net.model.named_parameters()) | dict(net.model.named_buffers())
    for name, (_, after) in report.resized.items():
        assert names[name].shape == after
    for name in report.dropped:
        assert name not in dict(net.model.named_parameters())
    assert all(row.layer == "" or row.layer in dict(net.model.named_modules()) for row in report.rows)
    assert report.to_dict()["rows"]


# -- one thing at a time -----------------------------------------------------------------------------------------------


def test_a_scrambled_copy_of_the_revised_network_fails_the_same_checks():
    """The checks above can fail: one bias put back is enough."""
    case = BY_NAME["functional"]
    net, inputs = copy.deepcopy(revised(case)), case.inputs()
    net.conv2.register_forward_hook(lambda module, args, out: out.same(out.components + 0.1))
    assert error(outputs(net, inputs)[0], outputs(net, case.rotated(inputs, ROTATIONS[0]))[0]) > 1e-4


@parametrize("functional", "set_abstraction", "edges", "raw_parameters", "transformer_encoder", "weight_net")
def test_copied_weights(case):
    model = case.model()
    net = reqnn.revise(model, example(case), **case.options, init="copy")
    before, after = dict(model.named_parameters()), dict(net.model.named_parameters())
    fits = {name for name, parameter in after.items() if name in before and before[name].shape == parameter.shape}
    assert fits
    assert set(net.report.copied) == fits
    assert all(torch.equal(before[name], after[name]) for name in fits)
    assert all(after[name].data_ptr() != before[name].data_ptr() for name in fits)


@parametrize("functional", "set_abstraction", "edges")
def test_fresh_weights(case):
    model = case.model()
    net = reqnn.revise(model, example(case), **case.options)
    assert net.report.copied == []
    before = dict(model.named_parameters())
    weights = {n: p for n, p in net.model.named_parameters() if n in before and before[n].shape == p.shape and p.dim() > 1}
    assert weights
    assert not any(torch.equal(before[name], parameter) for name, parameter in weights.items())


def test_fresh_weights_of_torchs_attention():
    case = BY_NAME["transformer_encoder"]
    model = case.model()
    net = reqnn.revise(model, example(case))
    assert not torch.equal(model.attend.in_proj_weight, net.attend.in_proj_weight)


def test_fresh_weights_follow_the_seed():
    case = BY_NAME["functional"]
    model, nets = case.model(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        nets.append(reqnn.revise(model, example(case)).conv2.weight)
    assert torch.equal(nets[0], nets[1])
    assert not torch.equal(nets[0], nets[2])


def test_frozen_weights_stay_frozen():
    model = classifiers.Functional()
    model.conv1.weight.requires_grad_(False)
    model.conv2.weight.requires_grad_(False)
    net = reqnn.revise(model, torch.randn(2, 3, 10))
    assert not net.conv2.weight.requires_grad
    assert not net.conv1.weight.requires_grad


def test_tied_weights_stay_tied():
    net = revised(BY_NAME["offset_attention"])
    assert net.query.weight is net.key.weight


def test_shared_modules_stay_shared():
    net = revised(BY_NAME["edges"])
    assert net.bn1 is net.conv1[1]
    assert isinstance(net.bn1, reqnn.nn.QuaternionBatchNorm)


def test_lazy_modules_that_have_never_run():
    """Either they are revised, or the error says to run them once."""
    model = classifiers.Lazy()
    try:
        net = reqnn.revise(model, torch.randn(4, 3, 20)).eval()
    except InputError as given:
        message = str(given)
    else:
        message = "lazy"
        assert net(torch.randn(4, 3, 20)).shape == (4, 5)
    assert "lazy" in message.lower()


@parametrize(
    "transformer_encoder",
    "group_norms",
    "colours",
)
def test_strict_refuses_what_goes_beyond_the_paper(case):
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        reqnn.revise(case.model(), example(case), **case.options, strict=True)


@parametrize("functional", "edges", "set_abstraction", "weight_net")
def test_strict_takes_the_papers_networks(case):
    net = reqnn.revise(case.model(), example(case), **case.options, strict=True)
    assert net.report.extensions == []


def test_extensions_are_marked_in_the_report():
    report = revised(BY_NAME["transformer_encoder"]).report
    assert {"multi_head_attention_forward", "layer_norm"} <= set(report.extensions)
    assert "* a rule beyond the paper" in str(report)
    assert "multi_head_attention_forward" in str(report)


def test_float64_model_and_float32_example():
    net = reqnn.revise(classifiers.Functional().double(), torch.randn(2, 3, 12))
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float64}
    assert {buffer.dtype for buffer in net.buffers() if buffer.is_floating_point()} == {torch.float64}
    assert net(torch.randn(2, 3, 12, dtype=torch.float64)).dtype == torch.float64


def test_data_parallel_is_unwrapped_also_inside():
    inner = reqnn.revise(nn.DataParallel(classifiers.Functional()), torch.randn(2, 3, 12))
    assert not any(isinstance(module, nn.DataParallel) for module in inner.modules())
    assert "conv1.weight" in inner.model.state_dict()
    model = nn.Sequential(
        nn.DataParallel(nn.Conv1d(3, 8, 1)), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    net = reqnn.revise(model, torch.randn(2, 3, 12))
    assert not any(isinstance(module, nn.DataParallel) for module in net.modules())
    assert isinstance(model[0], nn.DataParallel)


def test_the_result_has_the_originals_names_and_attributes():
    model = classifiers.Functional()
    model.title = "mine"
    net = reqnn.revise(model, torch.randn(2, 3, 12))
    assert isinstance(net, reqnn.RevisedModel)
    assert net.title == "mine"
    assert isinstance(net.fc1, nn.Linear)
    assert net.conv1.weight.shape == (12, 1, 1)
    assert net.conv1.bias is None
    assert net.conv1.in_channels == 1
    assert "conv1.bias" in net.report.dropped
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = net.nothing_here


def test_inputs_by_keyword():
    case = BY_NAME["functional"]
    net, (points,) = revised(case), case.inputs()
    assert torch.equal(net(x=points), net(points))


def test_a_second_input_by_keyword():
    case = BY_NAME["part_segmentation"]
    net, (points, label) = revised(case), case.inputs()
    assert torch.equal(net(points, label=label), net(points, label))


def test_gradients_reach_the_input():
    case = BY_NAME["edges"]
    (points,) = case.inputs()
    points.requires_grad_()
    revised(case)(points).sum().backward()
    assert torch.isfinite(points.grad).all()
    assert points.grad.abs().max() > 0


def test_random_state_is_not_used_up_where_weights_are_copied():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    model = classifiers.Functional()
    torch.manual_seed(0)
    reqnn.revise(model, torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0)), init="copy")
    assert torch.equal(torch.rand(3), expected)


def test_clouds_of_one_point_where_points_are_in_one_list():
    """(B·N, C) features have B rows where N = 1, and are still no global features."""
    net = revised(BY_NAME["flat_batches"])
    assert net(torch.randn(BATCH, 1, 3, dtype=torch.float64)).shape == (BATCH, 5)


# -- options -----------------------------------------------------------------------------------------------------------


def test_colours_are_scalars():
    case = BY_NAME["colours"]
    net, (points,) = revised(case), case.inputs()
    expected = net(points)
    turned = torch.cat([points[..., :3] @ ROTATIONS[0].T, points[..., 3:]], -1)
    assert error(expected, net(turned)) <= TOLERANCE
    recoloured = torch.cat([points[..., :3], points[..., 3:].flip(-1)], -1)
    assert error(expected, net(recoloured)) > 1e-3


def test_colours_that_are_not_declared_are_taken_for_vectors():
    net = reqnn.revise(coordinates.Colours(), torch.randn(4, 20, 6)).double().eval()
    points = torch.randn(4, 20, 6, dtype=torch.float64)
    turned = torch.cat([points[..., :3] @ ROTATIONS[0].T, points[..., 3:]], -1)
    assert error(net(points), net(turned)) > 1e-6
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= TOLERANCE


def test_weightnet_needs_coordinates():
    case = BY_NAME["weight_net"]
    net = revised(case)
    assert "3D coordinates weighting" in net.report.operations
    assert net.weightnet.hidden.weight.shape == (8, 3, 1, 1)
    assert net.weightnet.hidden.bias is not None


def test_frames_averaged_instead_of_signed():
    case = BY_NAME["weight_net"]
    rules = reqnn.get_rules("paper").with_options(frame="average")
    net = reqnn.revise(case.model(), example(case), **case.options, rules=rules).double()
    inputs = case.inputs()
    calibrate(net, inputs)
    assert error(outputs(net, inputs)[0], outputs(net, case.rotated(inputs, ROTATIONS[0]))[0]) <= TOLERANCE


def test_removed_transformers_return_identities():
    case = BY_NAME["transformers"]
    net = revised(case)
    _, trans, trans_feat = net(*case.inputs())
    assert torch.equal(trans, torch.eye(3, dtype=torch.float64).expand(BATCH, 3, 3))
    assert torch.equal(trans_feat, torch.eye(8, dtype=torch.float64).expand(BATCH, 8, 8))
    assert isinstance(net.stn, reqnn.nn.Removed)
    assert not any(name.startswith(("stn.", "fstn.")) for name in net.model.state_dict())


def test_to_real_by_name_moves_the_real_part():
    net = reqnn.revise(classifiers.Functional(), torch.randn(4, 3, 20), to_real="conv2").double().eval()
    assert net.conv2.bias is not None
    assert isinstance(net.bn2, nn.BatchNorm1d)
    assert "conv2" in net.report.to_real
    points = torch.randn(4, 3, 20, dtype=torch.float64)
    assert error(net(points), net(turn(points, 1, ROTATIONS[0]))) <= TOLERANCE


def test_to_real_at_several_places():
    net = reqnn.revise(classifiers.SqueezeExcitation(), torch.randn(4, 3, 20), to_real=["gate", "head"])
    assert net.report.to_real == ["gate", "head"]


def test_head_is_found():
    assert revised(BY_NAME["functional"]).report.to_real == ["fc1"]
    assert revised(BY_NAME["set_abstraction"]).report.to_real == ["fc1"]
    assert revised(BY_NAME["segmentation"]).report.to_real == ["conv4"]
    assert any("to_real=" in note for note in revised(BY_NAME["segmentation"]).report.notes)
    assert revised(BY_NAME["latent_autoencoder"]).report.to_real == []


def test_a_cloud_on_the_other_axis_needs_outputs():
    """(B, 3, N) in and (B, N, 3) out: the shapes do not say that the output is a cloud."""
    with pytest.raises(InputError, match="three classes"):
        reqnn.revise(dense_outputs.LatentAutoencoder(), torch.randn(4, 3, 24))
    net = reqnn.revise(dense_outputs.LatentAutoencoder(), torch.randn(4, 3, 24), outputs=("real",))
    assert net.report.to_real == ["decoder.0"]


@pytest.mark.parametrize("option", ["to_real", "coordinates", "remove"])
def test_wrong_names_give_a_close_match(option):
    given = "weightnett" if option == "to_real" else ("weightnett",)
    with pytest.raises(InputError, match=rf"{option}: the model has no submodule 'weightnett'.*weightnet"):
        reqnn.revise(coordinates.WeightedConvolution(), torch.randn(2, 3, 12), **{option: given})


@pytest.mark.parametrize("option", ["coordinates", "remove"])
def test_a_single_name_is_not_a_tuple(option):
    with pytest.raises(InputError, match=rf"{option}='stn': give a tuple of names, such as \('stn',\)"):
        reqnn.revise(pointnet.TransformedPointNet(), torch.randn(2, 3, 12), **{option: "stn"})


def test_remove_what_no_identity_fits():
    with pytest.raises(InputError, match=r"remove: 'head' returns .* no identity fits"):
        reqnn.revise(classifiers.Dense(), torch.randn(2, 3, 12), remove=("head",))


def test_remove_what_is_never_called():
    model = classifiers.Functional()
    model.unused = nn.Linear(3, 3)
    with pytest.raises(InputError, match="'unused' is never called"):
        reqnn.revise(model, torch.randn(2, 3, 12), remove=("unused",))


def test_vector_axis():
    model = nn.Sequential(nn.Conv1d(3, 8, 1), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2))
    net = reqnn.revise(model, torch.randn(4, 3, 3), vector_axis=1).double().eval()
    points = torch.randn(4, 3, 3, dtype=torch.float64)
    assert error(net(points), net(turn(points, 1, ROTATIONS[0]))) <= TOLERANCE
    assert reqnn.revise(model, torch.randn(4, 3, 3), vector_axis=-2).inputs.axes == (1,)


def test_vector_axis_of_several_inputs():
    label = torch.eye(7)[:3]
    net = reqnn.revise(dense_outputs.PartSegmentation(), (torch.randn(3, 3, 20), label), vector_axis=(1, None))
    assert net.inputs.axes == (1, None)
    assert net.eval()(torch.randn(3, 3, 20), label).shape == (3, 5, 20)


@pytest.mark.parametrize("batch", [3, 6, 9])
def test_a_label_is_no_cloud_whatever_the_batch(batch):
    label = torch.eye(7)[torch.arange(batch) % 7]
    net = reqnn.revise(dense_outputs.PartSegmentation(), (torch.randn(batch, 3, 20), label))
    assert net.inputs.axes == (1, None)


def test_labels_change_the_output():
    case = BY_NAME["part_segmentation"]
    net, (points, label) = revised(case), case.inputs()
    assert error(net(points, label), net(points, label.roll(1, 0))) > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "zeros"}, "init is 'zeros'; it must be 'fresh' or 'copy'"),
        ({"rules": "papr"}, "no rule set is named 'papr'.*paper"),
        ({"scalars": -1}, "scalars is -1"),
        ({"vector_axis": 5}, "vector_axis=5 is no axis"),
        ({"replace": {"no_such_function": len}}, "no function named no_such_function"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_options(options, message):
    with pytest.raises(InputError, match=message):
        reqnn.revise(graph.EdgeNetwork(), torch.randn(2, 3, 12), **options)


@pytest.mark.parametrize("model", [lambda x: x, "PointNet", classifiers.Functional])
def test_models_that_are_none(model):
    with pytest.raises(InputError, match=r"nn\.Module"):
        reqnn.revise(model, torch.randn(2, 3, 12))


def test_options_of_the_rules():
    case = BY_NAME["functional"]
    net = reqnn.revise(case.model(), example(case), rules=reqnn.get_rules("paper").with_options(c="mean")).double()
    inputs = case.inputs()
    calibrate(net, inputs)
    assert error(outputs(net, inputs)[0], outputs(net, case.rotated(inputs, ROTATIONS[0]))[0]) <= TOLERANCE
    other = copy.deepcopy(revised(case))
    other.load_state_dict(net.state_dict())
    assert error(outputs(net, inputs)[0], outputs(other, inputs)[0]) > 1e-4
    with pytest.raises(InputError, match="no option 'd'"):
        reqnn.get_rules("paper").with_options(d=1)


def test_an_already_revised_network_is_refused():
    net = reqnn.revise(classifiers.Functional(), torch.randn(2, 3, 12))
    with pytest.raises(InputError, match="already"):
        reqnn.revise(net, torch.randn(2, 3, 12))


# -- the report --------------------------------------------------------------------------------------------------------


def test_report_of_a_hierarchy():
    report = revised(BY_NAME["set_abstraction"]).report
    assert report.operations == [
        "Convolution",
        "ReLU",
        "Batch-normalization",
        "Max-pooling",
        "Dropout",
        "Farthest point sampling",
        "Grouping (ball query)",
    ]
    assert sorted(report.replaced) == ["farthest_point_sample", "query_ball_point"]
    assert report.extensions == []
    assert report.resized["sa1.convs.0.weight"] == ((8, 3, 1, 1), (8, 1, 1, 1))
    assert report.resized["sa2.convs.0.weight"] == ((8, 11, 1, 1), (8, 9, 1, 1))
    assert "sa1.convs.0.bias" in report.dropped
    rows = {(row.layer, row.row): row.kind for row in report.rows}
    assert rows["sa1.convs.0", "Convolution"] == "quaternion"
    assert rows["fc2", "Convolution"] == "real"
    text = str(report)
    assert "functions replaced: " in text
    assert "Quaternion2Real before: fc1" in text


def test_report_of_edge_convolutions():
    report = revised(BY_NAME["edges"]).report
    assert "Grouping (k-NN)" in report.operations
    assert report.replaced == ["knn"]
    assert report.resized["conv1.0.weight"] == ((8, 6, 1, 1), (8, 2, 1, 1))


def test_report_names_decorated_functions():
    assert revised(BY_NAME["decorated"]).report.replaced == ["furthest_point_sample"]


def test_report_of_offsets():
    report = revised(BY_NAME["offsets"]).report
    assert any("offset, again" in note for note in report.notes)
    assert report.resized["offset.weight"] == ((3, 12, 1), (1, 12, 1))


def test_held_functions_are_replaced():
    net = revised(BY_NAME["held_functions"])
    assert sorted(net.report.replaced) == ["farthest_point_sample", "query_ball_point"]
    assert set_abstraction.HeldFunctions().sample is networks.sampling.farthest_point_sample
