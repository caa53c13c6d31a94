"""Every network on the `meta` device, which has shapes and no values: nothing is read by Python, no tensor is elsewhere.

What runs here needs no transfer on a GPU either.
"""

import pytest
import torch

import reqnn
from experiments.styles import RULES, SMALL_POINTS, STYLES, logits
from rules.zoo import CLASSIFIERS, small
from test_audit import OPTIONS


def run_on_meta(net, points):
    net, points = net.to("meta"), points.to("meta")
    for training in (True, False):
        out = logits(net.train(training)(points))
        assert out.device.type == "meta"
        assert out.shape[0] == len(points)
        if training:
            out.sum().backward()
            assert all(p.grad.device.type == "meta" for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_zoo(name, rules):
    run_on_meta(small(rules, name), torch.randn(3, 64, 3))


@pytest.mark.parametrize("name", sorted(set(reqnn.list_models()) - set(reqnn.models.list_models(revisable=True))))
def test_networks_without_rules(name):
    run_on_meta(reqnn.create_model(name, num_classes=10, width=1 / 8, **OPTIONS.get(name, {})), torch.randn(3, 64, 3))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", STYLES)
def test_styles(name, rules):
    style = STYLES[name]
    points = style.points(3, SMALL_POINTS)
    run_on_meta(reqnn.revise(style.build(small=True), points, rules=rules, **style.revise[rules]), points)
