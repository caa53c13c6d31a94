"""Small networks that hold one call each, revised by any rule set."""

import torch
from torch import nn

from reqnn.revision.plan import Plan
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.context import Context


class Calls(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function):
        super().__init__()
        self.part = function

    def forward(self, x):
        return self.part(x)


def revised_call(rules, function, x, seed=0, strict=False, batch=None):
    """Run a function once with a plan, so that its parameters are made; gives what runs it from then on.

    The returned module and callable take quaternion features of the shape of x.
    """
    net = Calls(function).to(x.components.dtype)
    names = {id(module): name for name, module in net.named_modules()}
    plan = Plan(net)
    with torch.no_grad():
        for _ in range(2):  # a batch-norm is swapped in the first
            plan.begin()
            context = Context(rules, strict, batch, names=names, plan=plan)
            net(QuaternionTensor(x.components, x.axis, x.vectors, context))
    torch.manual_seed(seed)
    plan.learned.initialise()
    names = {id(module): name for name, module in net.named_modules()}

    def run(x):
        return net(QuaternionTensor(x.components, x.axis, x.vectors, Context(rules, strict, batch, names=names)))

    return net, run
