"""Networks by name, or from a run."""

import hashlib
import json
import warnings

import pytest
import torch

import reqnn
from experiments.weights.export import LARGEST
from reqnn.errors import InputError
from reqnn.pretrained import list_weights, load
from reqnn.train import load_run
from reqnn.train.run import FORMER_NAMES, weights_file


def test_a_run_is_loaded_ready_for_use(run_folder, test_digits):
    net = load(run_folder)
    assert not net.training
    assert net.classes == tuple("0123456789")
    assert (net.card["points"], net.card["network"], net.card["data"]) == (48, "dgcnn", "digits")
    assert net(test_digits.points).equal(load_run(run_folder).model(test_digits.points))
    assert load(str(run_folder / "last.safetensors")).classes == net.classes


def test_the_list_is_what_is_in_the_folder(shipped, ship, run_folder, test_digits):
    assert list_weights() == []
    for name in ("dgcnn-digits", "another"):
        ship(name)
    (shipped / ".half-written.safetensors").touch()
    assert list_weights() == reqnn.list_weights() == ["another", "dgcnn-digits"]
    net = reqnn.load("dgcnn-digits")
    assert net.card["name"] == "dgcnn-digits"
    assert net(test_digits.points).equal(load(run_folder)(test_digits.points))


def test_an_unknown_name_lists_those_there_are(ship):
    with pytest.raises(InputError, match="pretrained weights: none in this version"):
        load("dgcnn-digits")
    ship("dgcnn-digits")
    with pytest.raises(InputError, match=r"'dgcn-digits'.*weights: dgcnn-digits; did you mean dgcnn-digits"):
        load("dgcn-digits")


def test_a_damaged_card_is_named(ship):
    path = ship("some")
    path.with_suffix(".json").write_text("{")
    with pytest.raises(InputError, match=r"some\.json cannot be read as a model card"):
        load("some")


NONE = pytest.param("", marks=pytest.mark.skip("no weights ship with this version"))


@pytest.mark.parametrize("name", list_weights() or [NONE])
def test_what_ships_is_small_known_and_invariant(name):
    """Whatever is in the package: within the size, the file that its card is about, invariant, and not by answering nothing."""
    path = weights_file(name)
    assert path.stat().st_size <= LARGEST
    assert path.with_suffix(".md").exists()
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    net = load(name)
    assert card["name"] == name
    assert card["bytes"] == path.stat().st_size
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert list(net.classes) == card["classes"]
    assert card["audit"]["ok"] == card["equivariant"]
    points = torch.randn(2, card["points"], 3, generator=torch.Generator().manual_seed(0)).double() / 3
    rotated = points @ reqnn.quaternion.random_matrix(generator=torch.Generator().manual_seed(1), dtype=torch.float64).T
    if card["equivariant"]:
        with torch.no_grad():
            logits = net.double()(points)
            torch.testing.assert_close(logits, net.double()(rotated), rtol=1e-6, atol=1e-6)
            assert (logits[0] - logits[1]).abs().max() > 0.01


@pytest.mark.parametrize(("former", "name"), FORMER_NAMES.items())
def test_former_names_are_understood(former, name):
    assert weights_file(former) == weights_file(name)
    assert former not in list_weights()


def test_weights_that_are_not_those_of_their_card_are_refused(ship):
    path = ship("dgcnn-digits")
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(InputError, match="not the file of its model card"):
        load("dgcnn-digits")


def test_a_cloud_far_from_those_of_the_training_is_warned_of_once():
    net = reqnn.load("dgcnn.paper.3d-mnist")
    points = torch.randn(1, net.card["points"], 3, generator=torch.Generator().manual_seed(0))
    points = points - points.mean(1, keepdim=True)
    points = points / points.norm(dim=-1).amax()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        net(points)
        net.predict(1000 * points + 1e4)
        with pytest.warns(UserWarning, match=r"up to 1\.\d+e\+04 .* net.predict"):
            net(1000 * points + 1e4)
        net(1000 * points + 1e4)  # once is enough
