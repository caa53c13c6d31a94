"""Functions are replaced in the revised copy only: no global is patched, and the original may run beside it."""

import copy
import pickle
import sys
import threading
import types

import pytest
import torch

import networks.sampling as sampling
import reqnn
from networks import bystander, set_abstraction
from networks.checks import ORDER, error
from reqnn import InputError

POINTS = torch.randn(4, 24, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _clean():
    bystander.SEEN.clear()
    bystander.PAUSE_ON.clear()
    bystander.Child.calls = 0
    yield
    bystander.PAUSE_ON.clear()


def inner_points(xyz, npoint):
    """Return the points nearest to the mean: permutation-invariant, and unlike what ours returns."""
    distance = (xyz - xyz.mean(1, keepdim=True)).norm(dim=-1)
    return distance.topk(npoint, largest=False).indices


def test_well_known_functions_are_replaced_without_asking():
    model = bystander.Bystander()
    original = bystander.farthest_point_sample
    net = reqnn.revise(model, POINTS).eval()
    assert net.report.replaced == ["farthest_point_sample"]
    bystander.SEEN.clear()
    assert error(net(POINTS), net(POINTS[:, ORDER])) < 1e-5
    assert bystander.SEEN == []  # the original is not called by the copy
    assert bystander.farthest_point_sample is original
    model(POINTS)
    assert bystander.SEEN == ["original:Tensor"]
    assert type(model) is bystander.Bystander


def test_the_users_replacement_goes_before_ours():
    net = reqnn.revise(bystander.Bystander(), POINTS, replace={"farthest_point_sample": inner_points}).eval()
    ours = reqnn.revise(bystander.Bystander(), POINTS).eval()
    ours.load_state_dict(net.state_dict())
    assert net.report.replaced == ["farthest_point_sample"]
    assert error(net(POINTS), net(POINTS[:, ORDER])) < 1e-5
    assert error(net(POINTS), ours(POINTS)) > 1e-6
    assert "functions replaced: farthest_point_sample" in str(net.report)


def test_a_function_that_is_not_well_known_is_replaced_by_name():
    def middle(xyz, count):
        index = inner_points(xyz, count)
        return torch.gather(xyz, 1, index.unsqueeze(-1).expand(-1, -1, 3))

    original = bystander.pick
    net = reqnn.revise(bystander.Bystander(), POINTS, replace={"pick": middle}).eval()
    assert "pick" in net.report.replaced
    assert error(net(POINTS), net(POINTS[:, ORDER])) < 1e-5
    assert bystander.pick is original


def test_replacing_nothing_known_lists_what_there_is():
    with pytest.raises(InputError, match=r"no function named pik in the modules of the model; functions there: .*pick"):
        reqnn.revise(bystander.Bystander(), POINTS, replace={"pik": inner_points})


def test_replacements_that_cannot_be_called():
    with pytest.raises(InputError, match=r"pick.*callable|callable.*pick"):
        reqnn.revise(bystander.Bystander(), POINTS, replace={"pick": 3})


def test_without_replacement_the_copy_depends_on_the_order():
    """The negative control: the original function kept by a replacement that is the original."""
    original = {"farthest_point_sample": bystander.farthest_point_sample}
    net = reqnn.revise(bystander.Bystander(), POINTS, replace=original, check=False).eval()
    assert error(net(POINTS), net(POINTS[:, ORDER])) > 1e-3


def test_functions_from_another_module():
    """`import networks.sampling as su` and `from networks.sampling import query_ball_point` are both followed."""
    before = {name: getattr(sampling, name) for name in ("farthest_point_sample", "query_ball_point", "index_points")}
    net = reqnn.revise(set_abstraction.Hierarchy(), POINTS.transpose(1, 2))
    assert sorted(net.report.replaced) == ["farthest_point_sample", "query_ball_point"]
    assert all(getattr(sampling, name) is value for name, value in before.items())
    assert set_abstraction.su is sampling
    assert set_abstraction.query_ball_point is sampling.query_ball_point


def test_functions_whose_result_does_not_fit_are_kept():
    class Other(bystander.Bystander):
        def forward(self, x):
            return self.head(torch.relu(self.local(fps(x, 5))).amax(1))

    net = reqnn.revise(Other(), POINTS)
    assert net.report.kept == ["fps"]
    assert "left as they are: fps" in str(net.report)


def fps(xyz, npoint):
    """Return points, not indices, in spite of the name."""
    distance = (xyz - xyz.mean(1, keepdim=True)).norm(dim=-1)
    return torch.gather(xyz, 1, distance.topk(npoint).indices.unsqueeze(-1).expand(-1, -1, 3))


@pytest.mark.parametrize("cls", [bystander.Bystander, bystander.Child])
def test_the_original_runs_in_another_thread_with_its_own_functions(cls):
    """The original is stopped inside its own sampling function while its revised copy is made and run."""
    model = cls().eval()
    alone = model(POINTS)
    net = reqnn.revise(model, POINTS).eval()
    expected = net(POINTS)
    bystander.SEEN.clear()
    results = {}

    def run():
        results["original"] = model(POINTS)

    thread = threading.Thread(target=run)
    bystander.PAUSE_ON.append(True)
    thread.start()
    bystander.PAUSE.wait()  # the original is inside its function now
    bystander.PAUSE_ON.clear()
    try:
        assert torch.equal(net(POINTS), expected)
        again = reqnn.revise(model, POINTS, init="copy")
        assert again.report.replaced == ["farthest_point_sample"]
    finally:
        bystander.PAUSE.wait()
        thread.join(timeout=20)
    assert torch.equal(results["original"], alone)
    assert "original:Tensor" in bystander.SEEN


def test_many_threads_at_once():
    model = set_abstraction.Hierarchy().eval()
    net = reqnn.revise(model, POINTS.transpose(1, 2)).eval()
    clouds = [torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    expected = [net(cloud)[0] for cloud in clouds]
    results: dict = {}

    def run(i):
        with torch.no_grad():
            model(clouds[i])
            results[i] = [net(clouds[i])[0] for _ in range(3)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert all(torch.equal(out, expected[i]) for i in range(4) for out in results[i])


def test_super_class_methods_and_class_attributes():
    model = bystander.Child.named("mine")
    net = reqnn.revise(model, POINTS).eval()
    calls = bystander.Child.calls
    net(POINTS)
    assert net.name == "mine"
    assert error(net(POINTS), net(POINTS[:, ORDER])) < 1e-5
    assert bystander.Child.calls == calls  # the copy counts for itself
    assert type(net.model).__name__ == "Child"
    assert type(net.model).__module__ == "networks.bystander"


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_keep_the_replacement(how):
    net = reqnn.revise(bystander.Bystander(), POINTS, replace={"farthest_point_sample": inner_points}).eval()
    twin = copy.deepcopy(net) if how == "deepcopy" else pickle.loads(pickle.dumps(net))
    bystander.SEEN.clear()
    assert torch.equal(twin(POINTS), net(POINTS))
    assert bystander.SEEN == []
    assert twin.report.replaced == ["farthest_point_sample"]


def test_two_revisions_with_different_replacements():
    model = bystander.Bystander()
    ours = reqnn.revise(model, POINTS, init="copy").eval()
    theirs = reqnn.revise(model, POINTS, init="copy", replace={"farthest_point_sample": inner_points}).eval()
    expected = ours(POINTS)
    assert error(expected, theirs(POINTS)) > 1e-6
    assert torch.equal(ours(POINTS), expected)


def test_functions_of_libraries_are_replaced_too(monkeypatch):
    """A network that calls a compiled sampler of a library, by name or through the library's module."""
    library = types.ModuleType("compiled_ops")
    script = types.ModuleType("network_with_library")
    script.__file__ = __file__
    source = """
import torch
from torch import nn
import compiled_ops
from compiled_ops import furthest_point_sample

class Net(nn.Module):
    def __init__(self, through_module):
        super().__init__()
        self.conv, self.head, self.through_module = nn.Linear(3, 8), nn.Linear(8, 4), through_module

    def forward(self, x):
        sample = compiled_ops.furthest_point_sample if self.through_module else furthest_point_sample
        idx = sample(x, 5)
        chosen = x[torch.arange(x.shape[0])[:, None], idx]
        return self.head(self.conv(chosen).max(1)[0])
"""
    library.furthest_point_sample = _FromIndexZero()
    monkeypatch.setitem(sys.modules, "compiled_ops", library)
    monkeypatch.setitem(sys.modules, "network_with_library", script)
    exec(compile(source, __file__, "exec"), script.__dict__)
    points = torch.randn(2, 20, 3, dtype=torch.float64)
    for through_module in (False, True):
        net = reqnn.revise(script.Net(through_module).double(), points)
        assert net.report.replaced == ["furthest_point_sample"]
        torch.testing.assert_close(net(points.flip(1)), net(points), rtol=1e-12, atol=1e-14)
    assert isinstance(script.furthest_point_sample, _FromIndexZero)


class _FromIndexZero:
    """A callable without a name or a signature that names its arguments."""

    def __call__(self, *args):
        return torch.arange(args[1]).expand(args[0].shape[0], -1)
