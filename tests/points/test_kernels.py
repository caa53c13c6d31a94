"""Kernels give the indices of the plain-torch reference, to the last one, and stand aside where they cannot run."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqnn.kernels import run
from reqnn.points import ball_query, farthest_point_sample, kernels, knn

from .clouds import DTYPES, cube, generic, grid, seeds

pytestmark = pytest.mark.skipif(not run.enabled, reason="numba is missing or kernels are switched off")


@pytest.fixture(autouse=True, scope="module")
def small_searches_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "SMALL", 0)
        yield


def plain_torch():
    return run.switched(False)


def differences(search, *arguments):
    """How many indices of the kernel are not those of the reference."""
    assert kernels.serves(arguments[0])
    found = search(*arguments)
    with plain_torch():
        return int((found != search(*arguments)).sum())


def duplicates(seed, points, dim=3, **kwargs):
    xyz = generic(seed, points, dim=dim, **kwargs)
    return xyz[:, torch.randint(0, max(1, points // 3), (points,), generator=torch.Generator().manual_seed(seed))]


def lattice(seed, points, dim=3, batch=2, dtype=torch.float64):
    """Points of a small lattice, with repeats, and with a spacing that is no binary fraction."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 6, (batch, points, dim), generator=generator).to(dtype) * 0.1


def collinear(seed, points, dim=3, **kwargs):
    return generic(seed, points, dim=dim, **kwargs)[..., :1] * generic(seed + 1, 1, dim=dim, **kwargs)


def planar(seed, points, dim=3, **kwargs):
    xyz = generic(seed, points, dim=dim, **kwargs)
    xyz[..., -1] = 0
    return xyz


def far_away(seed, points, **kwargs):
    return generic(seed, points, **kwargs) + 1e4


def concentrated(seed, points, **kwargs):
    """Most points within the tie tolerance of each other, and a few far out."""
    xyz = generic(seed, points, **kwargs)
    return xyz * torch.rand(xyz.shape[:2], generator=torch.Generator().manual_seed(seed))[..., None].to(xyz) ** 6


def tiny(seed, points, **kwargs):
    """Coordinates whose squares are no longer normal numbers in single precision."""
    return generic(seed, points, **kwargs) * 1e-20


CLOUDS = [generic, duplicates, lattice, collinear, planar, far_away, concentrated, tiny]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=8, deadline=None)
@given(seed=seeds, points=st.integers(1, 150) | st.integers(150, 600), data=st.data())
def test_three_dimensions(cloud, dtype, seed, points, data):
    xyz = cloud(seed, points, dtype=dtype)
    k = data.draw(st.sampled_from([1, points]) | st.integers(1, points))
    radius = data.draw(st.sampled_from([0.1, 0.2, 0.5, 1.0, 1e-20, 1e6]))
    query = data.draw(st.sampled_from([xyz, xyz[:, :7] * 1.1, xyz.mean(1, keepdim=True), 9 * xyz[:, :3] + 1]))
    assert differences(knn, xyz, query, k) == 0
    assert differences(ball_query, xyz, query, radius, k) == 0
    assert differences(farthest_point_sample, xyz, min(k, 100)) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("dim", [1, 2, 4, 33, 192])
@settings(max_examples=3, deadline=None)
@given(seed=seeds, points=st.integers(1, 80) | st.integers(250, 400), data=st.data())
def test_any_dimension(cloud, dim, dtype, seed, points, data):
    xyz = cloud(seed, points, dim=dim, dtype=dtype)
    k = data.draw(st.sampled_from([1, points, min(points, 20)]) | st.integers(1, points))
    query = data.draw(st.sampled_from([xyz, xyz[:, :7] * 1.1, xyz.mean(1, keepdim=True), 9 * xyz[:, :3] + 1]))
    assert differences(knn, xyz, query, k) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_large_clouds(cloud, dtype):
    xyz = cloud(0, 1500, batch=1, dtype=dtype)  # more than a block of distances
    assert differences(knn, xyz, xyz, 20) == 0
    assert differences(ball_query, xyz, xyz, 0.2, 16) == 0
    assert differences(farthest_point_sample, xyz, 300) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_clouds_and_symmetric_ones(dtype):
    for xyz in (torch.ones(1, 1, 3, dtype=dtype), torch.ones(2, 5, 3, dtype=dtype), cube(dtype), grid(0, 125, dtype=dtype)):
        for k in range(1, min(xyz.shape[1], 40) + 1):
            assert differences(knn, xyz, xyz, k) == 0
            assert differences(ball_query, xyz, xyz, 2.0, k) == 0
            assert differences(farthest_point_sample, xyz, k) == 0


def test_views_and_matrix_precision():
    xyz = generic(0, 300, dim=12, dtype=torch.float32)
    assert differences(knn, xyz[:, ::2, 3:6], xyz[:, 1::2, 3:6], 5) == 0
    assert differences(knn, xyz.mT[..., :9], xyz.mT[:, ::3, :9], 5) == 0
    assert differences(farthest_point_sample, xyz[:, ::2, ::4], 50) == 0
    with torch.autocast("cpu", torch.bfloat16):
        assert differences(knn, xyz, xyz, 5) == 0


def test_rows_in_blocks(monkeypatch):
    xyz = duplicates(0, 300, dim=16, dtype=torch.float32)
    monkeypatch.setattr(kernels, "BLOCK", 7 * 300)
    assert differences(knn, xyz, xyz, 12) == 0


def test_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for dim in (3, 24):
            xyz = lattice(1, 500, dim=dim, dtype=torch.float32)
            assert differences(knn, xyz, xyz, 10) == 0
        xyz = generic(1, 500, batch=5, dtype=torch.float32)
        assert differences(farthest_point_sample, xyz, 100) == 0
        assert differences(ball_query, xyz, xyz, 0.3, 10) == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_keeps_its_number_of_threads(threads):
    """In a fresh process: numba sets the number for all of OpenMP when it starts its threads."""
    code = f"""if True:
        import torch
        torch.set_num_threads({threads})
        from reqnn.kernels.edges import weighted_sum
        from reqnn.points import density, knn
        x = torch.randn(2, 300, 3)
        weighted_sum(x[0], knn(x, x, 5)[0], torch.ones(300, 5))
        density(x, 0.1)
        assert torch.get_num_threads() == {threads}, torch.get_num_threads()
    """
    environment = {**os.environ, "NUMBA_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_without_kernels(monkeypatch):
    xyz = generic(0)
    expected = knn(xyz, xyz, 5), ball_query(xyz, xyz, 0.5, 5), farthest_point_sample(xyz, 9)
    monkeypatch.setattr(run, "enabled", False)
    monkeypatch.setattr(kernels, "nearest_points", None)
    monkeypatch.setattr(kernels, "farthest_points", None)
    found = knn(xyz, xyz, 5), ball_query(xyz, xyz, 0.5, 5), farthest_point_sample(xyz, 9)
    assert all(map(torch.equal, found, expected))


def test_where_kernels_stand_aside():
    xyz = generic(0, dtype=torch.float32)
    assert kernels.serves(xyz)
    assert not kernels.serves(xyz, xyz.to("meta"))
    assert not kernels.serves(xyz * 1e17)  # squares overflow
    wide = torch.zeros(1, 3000, 3)
    assert kernels.serves_search(wide, wide, 20)
    assert not kernels.serves_search(wide, wide, 300)
    with plain_torch():
        assert not kernels.serves(xyz)


def test_small_searches_compile_nothing(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(kernels, "SMALL", 1 << 16)
    monkeypatch.setattr(kernels, "nearest_points", lambda *given: pytest.fail("a kernel"))
    x = generic(0, 128, batch=4)
    assert torch.equal(knn(x, x, 5)[..., 0], torch.arange(128).expand(4, -1))
    with pytest.raises(pytest.fail.Exception):
        knn(torch.cat([x, x[:, :1] + 1], 1), x, 5)


def test_no_folder_for_the_cache():
    from reqnn.kernels.compile import compiled

    namespace = {}
    exec(compile("def double(x):\n    return x + x\n", "<no file>", "exec"), namespace)
    assert compiled(namespace["double"])(3) == 6


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("knn", lambda x: knn(x, x, 4)),
        ("knn", lambda x: ball_query(x, x, 0.5, 4)),  # the same search
        ("farthest_point_sample", lambda x: farthest_point_sample(x, 5)),
    ],
)
def test_compile_sees_one_node(name, function):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    xyz = grid(0)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(function, backend=backend, fullgraph=True)(xyz), function(xyz))
    assert [str(node.target) for node in graphs[0].graph.nodes if "reqnn" in str(node.target)] == [f"reqnn.{name}.default"]
