"""The plan of a dry run, the dry run and the choices between dry runs, each by itself."""

import pytest
import torch
from torch import nn

from networks.refused import SineEncoding
from reqnn.errors import NoRuleError
from reqnn.revision.choices import Block, Choices
from reqnn.revision.dry_run import VectorsLost, dry_run
from reqnn.revision.inputs import read_inputs
from reqnn.revision.module import RevisedModel
from reqnn.revision.parameters import Restart
from reqnn.revision.plan import Plan, RealBefore
from reqnn.rules import get_rules

POINTS = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))


def dry(model, auto_real=True, rotating=(False,)):
    """One dry run: the network and what was found out about it."""
    inputs, args = read_inputs(POINTS)
    net, plan = RevisedModel(model.eval(), inputs, get_rules("paper"), False, auto_real), Plan(model)
    dry_run(net, plan, args, list(rotating), set(), model)
    return net, plan


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.local, self.head = nn.Linear(3, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.local(x)).amax(1))


def test_a_dry_run_resizes_drops_and_finds_the_head():
    net, plan = dry(Pooled())
    assert plan.resized == {"local.weight": ((8, 3), (8, 1))}
    assert plan.dropped == ["local.bias"]
    assert plan.heads == ["head"]
    assert net.model.local.in_features == 1
    assert [met.row for met in plan.met_operations] == ["Convolution", "ReLU", "Max-pooling", "Quaternion2Real", "Convolution"]


def test_a_dry_run_says_that_coordinates_came_out_real():
    with pytest.raises(VectorsLost) as lost:
        dry(Pooled(), rotating=(True,))
    assert lost.value.layer == "head"


def test_a_plan_resizes_parameters_only():
    plan = Plan(Pooled())
    with pytest.raises(NoRuleError, match="no parameter"):
        plan.resize(torch.zeros(8, 3), 1, "v")
    with pytest.raises(Restart):  # a view of a parameter: the code makes it anew
        plan.resize(plan.model.local.weight.t(), 0, "v")
    assert plan.model.local.weight.shape == (8, 1)


def test_a_plan_keeps_what_is_tied():
    model = nn.ModuleList([nn.Linear(3, 4), nn.Linear(3, 4)])
    model[1].weight = model[0].weight
    plan = Plan(model)
    new = plan.resize(model[0].weight, 1, "v")
    assert model[0].weight is new is model[1].weight
    assert not plan.drop(torch.zeros(4))
    assert plan.drop(model[1].bias)
    assert model[1].bias is None
    assert model[0].bias is not None


def choices(**given):
    return Choices(**{"to_real": [], "auto_real": True, "rotating": [False], "open": True} | given)


def test_choices_learn_from_what_ended_a_dry_run():
    known, model = choices(auto_frames=False, blocks={}), Pooled()
    known.learn(RealBefore("local", "softmax"), Plan(model))
    known.learn(RealBefore("head"), Plan(model))
    assert known.real_before == ["head", "local"]
    known.learn(VectorsLost("head"), Plan(model))
    assert known.found == []
    assert known.keep == {"head"}
    known.learn(VectorsLost("head"), Plan(model))
    assert not known.auto_real
    with pytest.raises(NoRuleError, match="the same"):
        known.learn(NoRuleError("the same", "sin", "local"), Plan(model))


@pytest.mark.parametrize(
    ("blocks", "layer", "expected"),
    [((), "0.0", "0.0"), (("0.0",), "0.0", "0"), (("0",), "0.0", ""), ((), "1.inner", "1"), ((), "", "")],
)
def test_the_block_around_an_operation(blocks, layer, expected):
    """The user's own submodule if there is one, and none that is in the frame already."""
    own = SineEncoding()
    own.inner = nn.Linear(3, 3)
    model = nn.Sequential(nn.Sequential(nn.Tanh()), own)
    known = choices(auto_frames=True, blocks={name: Block() for name in blocks})
    assert known._block_around(layer, model) == expected
