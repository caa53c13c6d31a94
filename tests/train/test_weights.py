import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from reqnn.errors import InputError
from reqnn.train.run import build_network, load_run, save_weights
from reqnn.train.weights import checksum, load_model_tensors, load_tensors, model_tensors, save_tensors

DGCNN = {"model": "dgcnn", "options": {"width": 0.0625, "k": 4}}


@pytest.mark.parametrize("equivariant", [False, True])
def test_a_weights_file_builds_its_network_again(equivariant: bool, settings: Callable, tmp_path: Path) -> None:
    config = settings(**DGCNN, equivariant=equivariant)
    network = build_network(config, 10).eval()
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1)
    save_weights(tmp_path / "some.safetensors", network, config, tuple("0123456789"), {"epoch": 3})
    run = load_run(tmp_path / "some.safetensors")
    points = torch.randn(2, 24, 3, generator=torch.Generator().manual_seed(0))
    assert run.model(points).equal(network(points))
    assert (run.config, run.classes, run.metrics) == (config, tuple("0123456789"), {"best": {"epoch": 3}})


def test_a_tensor_with_two_names_is_stored_once(settings: Callable) -> None:
    network = build_network(settings(**DGCNN), 10)
    names = model_tensors(network)
    assert "bn1.weight" in names
    assert "conv1.1.weight" not in names
    assert "conv1.1.weight" in network.state_dict()


def test_the_same_seed_gives_the_same_weights_and_leaves_the_random_state(settings: Callable) -> None:
    state = torch.get_rng_state()
    one, other = build_network(settings(**DGCNN), 10), build_network(settings(**DGCNN), 10)
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert torch.get_rng_state().equal(state)


def stored(path: Path) -> Path:
    save_tensors(path, {"a": torch.arange(100.0), "step": torch.tensor(3.0), "n": torch.tensor(7)}, {"note": "é"})
    return path


def test_tensors_and_record_come_back(tmp_path: Path) -> None:
    tensors, about = load_tensors(stored(tmp_path / "x.safetensors"))
    assert tensors["a"].equal(torch.arange(100.0))
    assert tensors["step"].shape == ()
    assert about == {"note": "é"}


@pytest.mark.parametrize("keep", [0, 4, 60, 300, -1])
def test_a_file_cut_off_is_refused(tmp_path: Path, keep: int) -> None:
    path = stored(tmp_path / "x.safetensors")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"x\.safetensors cannot be read"):
        load_tensors(path)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.safetensors")
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        load_tensors(path)


def test_a_changed_record_is_found(tmp_path: Path, settings: Callable) -> None:
    """A class that is called otherwise, a digit of a setting: the tensors are the same, the file is not."""
    config, path = settings(**DGCNN), tmp_path / "x.safetensors"
    save_weights(path, build_network(config, 3), config, ("chair", "sofa", "lamp"), {"epoch": 3})
    for before, after in ((b"chair", b"table"), (rb"epoch\": 3", rb"epoch\": 4")):
        content = path.read_bytes()
        assert content.count(before) == 1
        path.write_bytes(content.replace(before, after))
        with pytest.raises(InputError, match=r"x\.safetensors is damaged: its checksum"):
            load_run(path)
        path.write_bytes(content)
    assert load_run(path).classes[0] == "chair"


def test_files_with_the_earlier_checksum_are_read(tmp_path: Path) -> None:
    """Their checksum covers the tensors only; a file of today cannot pass for one."""
    path = stored(tmp_path / "x.safetensors")
    tensors, about = load_tensors(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(checksum(tensors, json.dumps(about)).encode(), checksum(tensors).encode()))
    assert path.read_bytes() != content
    assert load_tensors(path)[1] == about


def test_a_record_of_a_huge_network_is_refused_before_memory_is_taken(tmp_path: Path, settings: Callable) -> None:
    path = tmp_path / "x.safetensors"
    for equivariant in (False, True):
        config = settings(model="dgcnn", equivariant=equivariant, options={"width": 64})
        save_tensors(path, {"a": torch.zeros(3)}, {"config": config.to_dict(), "classes": ["a", "b"], "log": {}})
        assert path.stat().st_size < 3000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match=r"x\.safetensors is damaged: its settings are of [\d,]{13,} parameters"):
            load_run(path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="no record of their network"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(tmp_path / "x.safetensors")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        save_tensors(path, {"a": torch.zeros(1)}, {})
    assert load_tensors(path)[1] == {"note": "é"}
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_weights_of_another_network_are_refused() -> None:
    given = model_tensors(nn.Linear(3, 2))
    with pytest.raises(InputError, match="lacks weight"):
        load_model_tensors(nn.Linear(3, 2), {"bias": given["bias"]}, "file")
    with pytest.raises(InputError, match="has extra"):
        load_model_tensors(nn.Linear(3, 2), {**given, "extra": given["bias"]}, "file")
    with pytest.raises(InputError, match=r"weight has shape \(2, 3\), the network's \(2, 4\)"):
        load_model_tensors(nn.Linear(4, 2), given, "file")


def test_a_missing_run_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no best\.safetensors"):
        load_run(tmp_path)
