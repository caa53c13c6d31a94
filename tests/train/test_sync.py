"""Two processes with half a batch each take the very step of one process with the whole."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from reqnn.train.sync import SynchronisedBatchNorm, synchronise
from reqnn.zoo import create_model

SMALL = {
    "dgcnn": {"width": 0.0625, "k": 4, "dropout": 0.0},
    "pointnet2": {"width": 0.0625, "npoint": (12, 6), "radius": (0.5, 1.0), "nsample": (6, 4), "dropout": 0.0},
    "pointconv": {"width": 0.0625, "npoint": (12, 6), "nsample": (6, 4), "dropout": 0.0},
}


def network(name: str, equivariant: bool) -> nn.Module:
    torch.manual_seed(0)
    net = create_model(name, equivariant, num_classes=3, **SMALL[name]).double()
    with torch.no_grad():
        for module in net.modules():  # gammas and betas that are not all alike
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.weight.uniform_(-1, 1)
                module.bias.uniform_(-1, 1)
    return net.train()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    # The halves differ in size: statistics of one half would not do for the other.
    points = torch.randn(12, 20, 3, generator=generator, dtype=torch.float64)
    points[6:] *= 3
    return points, torch.arange(12) % 3


def gradients(net: nn.Module, wrapped: nn.Module, points: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    nn.functional.cross_entropy(wrapped(points), labels).backward()
    found = {name: parameter.grad for name, parameter in net.named_parameters()}
    return found | {name: buffer for name, buffer in net.named_buffers() if buffer.is_floating_point()}


def work(rank: int, folder: Path) -> None:
    """One of two processes: a step on its half of the batch."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    points, labels = batch()
    half = slice(6 * rank, 6 * rank + 6)
    results = {}
    for name in SMALL:
        for equivariant in (False, True):
            for together in (True, False) if name == "dgcnn" else (True,):
                net = network(name, equivariant)
                if together:
                    synchronise(net)
                found = gradients(net, DistributedDataParallel(net), points[half], labels[half])
                results[name, equivariant, together] = found
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder = tmp_path_factory.mktemp("sync")
    commands = [[sys.executable, __file__, str(rank), str(folder)] for rank in (0, 1)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    try:
        problems = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), problems
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("equivariant", [False, True])
@pytest.mark.parametrize("name", list(SMALL))
def test_two_processes_are_one_with_the_joint_batch(name: str, equivariant: bool, two_processes: list[dict]) -> None:
    net = network(name, equivariant)
    expected = gradients(net, net, *batch())
    for results in two_processes:
        got = results[name, equivariant, True]
        assert set(got) == set(expected)
        for key, value in expected.items():
            torch.testing.assert_close(got[key], value, rtol=1e-9, atol=1e-9, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("equivariant", [False, True])
def test_two_processes_with_statistics_of_their_own_are_not(equivariant: bool, two_processes: list[dict]) -> None:
    net = network("dgcnn", equivariant)
    expected = gradients(net, net, *batch())
    apart = two_processes[0]["dgcnn", equivariant, False]
    assert max(float((apart[key] - value).abs().max()) for key, value in expected.items()) > 1e-3


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.BatchNorm1d, (6, 4)), (nn.BatchNorm1d, (6, 4, 5)), (nn.BatchNorm2d, (3, 4, 5, 2))]
)
def test_alone_it_is_torchs_own(kind: type, shape: tuple, affine: bool, momentum: float | None) -> None:
    torch.manual_seed(0)
    own, shared = (kind(4, affine=affine, momentum=momentum).double() for _ in range(2))
    synchronise(shared)
    assert isinstance(shared, SynchronisedBatchNorm)
    for _ in range(3):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, found = own(x), shared(y)
        torch.testing.assert_close(found, expected)
        slope = torch.randn_like(expected)
        expected.backward(slope)
        found.backward(slope)
        torch.testing.assert_close(y.grad, x.grad)
    for name, tensor in own.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[name], tensor)
    torch.testing.assert_close(shared.eval()(x), own.eval()(x))


@pytest.mark.usefixtures("one_process")
def test_half_precision_is_normalised_in_float32() -> None:
    norm = nn.BatchNorm1d(4)
    synchronise(norm)
    x = 100 + torch.randn(64, 4)
    out = norm(x.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), nn.BatchNorm1d(4)(x.bfloat16().float()), rtol=0.02, atol=0.02)


if __name__ == "__main__":
    work(int(sys.argv[1]), Path(sys.argv[2]))
