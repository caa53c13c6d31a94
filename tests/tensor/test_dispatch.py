"""From a torch call to its rule; what has none raises with the operation, the reason and the user's line."""

import inspect
import pickle

import einops
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from equivariance import cloud, draw, strict
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor

FEATURES = {
    "x + 1": ("add", "number", lambda x: x + 1),
    "1 - x": ("__rsub__", "number", lambda x: 1 - x),
    "x + real": ("add", "real tensor", lambda x: x + torch.ones(4)),
    "cat(Q, real)": ("cat", "joins", lambda x: torch.cat([x, torch.ones(2, 4)], 1)),
    "stack(Q, real)": ("stack", "joins", lambda x: torch.stack([x, torch.ones(2, 4)])),
    "F.softmax": ("softmax", "invariants", lambda x: F.softmax(x, dim=-1)),
    "torch.softmax": ("softmax", "invariants", lambda x: torch.softmax(x, -1)),
    "x.softmax": ("softmax", "invariants", lambda x: x.softmax(1)),
    "nn.Softmax": ("softmax", "invariants", lambda x: nn.Softmax(dim=1)(x)),
    "log_softmax": ("log_softmax", "real", lambda x: F.log_softmax(x, dim=1)),
    "F.linear with bias": ("linear", "bias", lambda x: F.linear(x, torch.ones(3, 4), torch.ones(3))),
    "nn.Linear": ("linear", "bias", lambda x: nn.Linear(4, 3)(x)),
    "nn.Conv1d": ("conv1d", "bias", lambda x: nn.Conv1d(4, 3, 1)(x.unsqueeze(-1))),
    "exp": ("exp", "exponential", lambda x: x.exp()),
    "sin": ("sin", "sines", lambda x: torch.sin(x)),
    "cos": ("cos", "sines", lambda x: x.cos()),
    "sqrt": ("sqrt", "element-wise", lambda x: x.sqrt()),
    "sigmoid": ("sigmoid", "gate", lambda x: torch.sigmoid(x)),
    "tanh": ("tanh", "gate", lambda x: nn.Tanh()(x)),
    "x > 0": ("gt", "norms", lambda x: x > 0),
    "x == x": ("__eq__", "norms", lambda x: x == x),
    "torch.le": ("le", "norms", lambda x: torch.le(x, 0)),
    "median": ("median", "no rule", lambda x: x.median()),
    "out=": ("add", "out=", lambda x: torch.add(x, x, out=torch.empty(2, 4))),
    "out= of matmul": ("matmul", "out=", lambda x: torch.matmul(x, torch.ones(4, 2), out=torch.empty(2, 2))),
    "real += x": ("add_", "cannot be added", lambda x: torch.ones(2, 4).add_(x)),
    "x.mul_(x)": ("mul_", "real values in place", lambda x: x.mul_(x)),
    "cross_entropy": ("cross_entropy", "invariants", lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.long))),
    "einops.reduce by prod": ("prod", "no rule", lambda x: einops.reduce(x, "b c -> b", "prod")),
    "nn.GRUCell": ("gru_cell", "no rule", lambda x: nn.GRUCell(4, 4)(x, x)),
    "setting data": ("data", "data", lambda x: setattr(x, "data", torch.zeros(2))),
    "grad": ("grad", "grad", lambda x: x.grad),
}

COORDINATES = {
    "x[..., 0]": ("__getitem__", "cuts a vector", lambda x: x[..., 0]),
    "x[..., 1:4]": ("__getitem__", "cuts a vector", lambda x: x.repeat(1, 1, 2)[..., 1:4]),
    "3×3 matrix": ("matmul", "remove=", lambda x: x @ torch.eye(3)),
    "bmm": ("bmm", "remove=", lambda x: torch.bmm(x, torch.eye(3).expand(2, 3, 3))),
    "covariance": ("matmul", "covariance", lambda x: torch.matmul(x.transpose(1, 2), x)),
    "std of one vector": ("std", "variance", lambda x: x.std(-1)),
    "abs": ("abs", "norm of the vector", lambda x: x.abs()),
    "sum of coordinates": ("sum", "mix the coordinates", lambda x: x.sum(-1)),
    "max of coordinates": ("max", "mix the coordinates", lambda x: x.max(-1)),
    "layer on points": ("linear", "axis", lambda x: F.linear(x.transpose(1, 2), torch.ones(2, 5))),
    "sort": ("sort", "mix the coordinates", lambda x: x.sort(-1)),
    "clamp": ("clamp", "single coordinates", lambda x: x.clamp(-1, 1)),
}

CASES = [(name, draw, (2, 4), *case) for name, case in FEATURES.items()]
CASES += [(name, cloud, (2, 5, 3), *case) for name, case in COORDINATES.items()]


@pytest.mark.parametrize(
    ("make", "shape", "operation", "reason", "function"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_no_rule(make, shape, operation, reason, function):
    with pytest.raises(NoRuleError) as caught:
        function(make(0, *shape, dtype=torch.float32))
    error = caught.value
    assert error.operation == operation
    assert reason in error.reason
    file, line, code = error.location.split(":", 2)
    assert file == __file__
    source, first = inspect.getsourcelines(function)
    assert first <= int(line) < first + len(source)
    assert code.strip() in "".join(source)
    assert error.location in str(error)
    assert "ways out" in str(error)


def test_errors_survive_pickling():
    with pytest.raises(NoRuleError) as caught:
        draw(0, 2) + 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.location == caught.value.location


def test_the_layer_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Identity(), nn.Softmax(dim=1))

        def forward(self, x):
            return self.block(x)

    model, x = Model(), draw(0, 2, 4)
    x.context.names = {id(module): name for name, module in model.named_modules()}
    with pytest.raises(NoRuleError, match=r"layer 'block\.1'") as caught:
        model(x)
    assert caught.value.layer == "block.1"
    assert caught.value.location.startswith(f"{__file__}:")


def test_strict_refuses_what_goes_beyond_the_paper():
    x = strict(draw(0, 2, 4))
    F.relu(x)
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        F.gelu(x)


def test_function_method_module_and_keyword_are_one_rule():
    x = draw(0, 2, 4)
    expected = F.relu(x).components
    for result in (torch.relu(x), x.relu(), nn.ReLU()(x), F.relu(input=x), torch.relu_(x.clone()), F.relu_(x.clone())):
        assert torch.equal(result.components, expected)


def test_real_first_operands_reach_the_rule():
    x = draw(0, 4, 4)
    weight = torch.ones(4, 4).double()
    assert isinstance(weight @ x, QuaternionTensor)
    assert isinstance(weight * x, QuaternionTensor)
    assert isinstance(torch.where(weight > 0, x, 0), QuaternionTensor)


def test_nothing_slips_past_the_rules():
    """An operation that the Python layer does not announce stops at the kernels."""
    with pytest.raises(NoRuleError), torch._C.DisableTorchFunctionSubclass():
        draw(0, 2, 4) + 1
