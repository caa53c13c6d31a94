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
