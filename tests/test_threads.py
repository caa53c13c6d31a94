"""One revised network in two threads at once: nothing of a pass is shared."""

import threading

import pytest
import torch

import reqnn
from experiments.styles import RULES, SMALL_POINTS, STYLES, logits


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["dgcnn", "pointnet2_ssg"])
def test_two_threads(name, rules):
    style = STYLES[name]
    clouds = [style.points(2, SMALL_POINTS, seed=seed) for seed in range(2)]
    net = reqnn.revise(style.build(small=True), clouds[0], rules=rules, **style.revise[rules]).eval()
    expected = [logits(net(points)) for points in clouds]
    found: list[list[torch.Tensor]] = [[], []]
    start = threading.Barrier(2)

    def work(number):
        start.wait()
        for _ in range(5):
            found[number].append(logits(net(clouds[number])))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        assert len(found[number]) == 5
        for out in found[number]:
            torch.testing.assert_close(out, expected[number], rtol=1e-5, atol=1e-5)


def test_features_belong_to_their_own_call():
    """Replaced features in one thread, while another predicts with the same network and a third takes features."""
    style = STYLES["dgcnn"]
    points = style.points(2, SMALL_POINTS, seed=0)
    net = reqnn.revise(style.build(small=True), points, rules="paper", **style.revise["paper"]).eval()
    name = next(name for name, module in net.model.named_modules() if isinstance(module, torch.nn.Conv1d))
    with torch.no_grad():
        expected, features = logits(net(points)), net.features(points, at=name)
        large = features * 100.0
        replaced = logits(net.put_features(large, points, at=name))
        invariant = net.encode(points)["invariant"]
    assert (replaced - expected).abs().max() > 1e-3
    work = [
        (lambda: logits(net(points)), expected),
        (lambda: logits(net.put_features(large, points, at=name)), replaced),
        (lambda: net.features(points, at=name).components, features.components),
        (lambda: net.encode(points)["invariant"], invariant),
    ]
    start, wrong = threading.Barrier(len(work)), []

    def repeat(function, wanted):
        start.wait()
        with torch.no_grad():
            for _ in range(6):
                found = function()
                if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-5, atol=1e-5):
                    wrong.append(function)

    threads = [threading.Thread(target=repeat, args=pair) for pair in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
