"""For every registered rule and every documented argument: the result changes, or an error says why not; nothing is dropped."""

import inspect

import pytest
import torch
from torch.overrides import get_testing_overrides

from reqnn.errors import ReqnnError
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.context import Context


def real(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Features:
    """Quaternion features by one rule set."""

    def __init__(self, rules):
        self.context, self.parts = Context(get_rules(rules)), 4 if rules == "full" else 3

    def __call__(self, *shape, seed=0):
        return QuaternionTensor(real(self.parts, *shape, seed=seed), context=self.context)


FIRST = torch.zeros(2, 6, 5, dtype=torch.long)
SOME = torch.tensor([0, 2])


def calls(name, q):
    """Ways to call a function; the first that works is taken."""
    x, y, plane, space = q(2, 6, 5), q(2, 6, 5, seed=1), q(2, 6, 4, 4), q(2, 6, 4, 4, 4)
    own = {
        "adaptive_avg_pool2d": (plane, 2),
        "adaptive_avg_pool3d": (space, 2),
        "adaptive_max_pool2d": (plane, 2),
        "adaptive_max_pool3d": (space, 2),
        "addcmul": (x, x, real(2, 6, 5)),
        "addmm": (q(6, 3), q(6, 5), real(5, 3)),
        "avg_pool2d": (plane, 2),
        "avg_pool3d": (space, 2),
        "baddbmm": (q(2, 6, 3), x, real(2, 5, 3)),
        "batch_norm": (x, None, None, None, None, True),
        "conv2d": (plane, real(4, 6, 1, 1)),
        "conv3d": (space, real(4, 6, 1, 1, 1)),
        "conv_transpose1d": (x, real(6, 4, 1)),
        "conv_transpose2d": (plane, real(6, 4, 1, 1)),
        "conv_transpose3d": (space, real(6, 4, 1, 1, 1)),
        "index_add": (x, 1, SOME, q(2, 2, 5)),
        "index_copy": (x, 1, SOME, q(2, 2, 5)),
        "interpolate": (x, 10),
        "lerp": (x, y, 0.3),
        "masked_fill": (x, real(2, 6, 5) > 0, 0.0),
        "max_pool2d": (plane, 2),
        "max_pool3d": (space, 2),
        "narrow": (x, 1, 0, 2),
        "pad": (x, (1, 1)),
        "pairwise_distance": (x, y),
        "scaled_dot_product_attention": (x, x, x),
        "scatter_add": (x, 1, FIRST, y),
        "split_with_sizes": (x, [2, 4], 1),
        "take_along_dim": (x, FIRST, 1),
        "unflatten": (x, 1, (2, 3)),
        "where": (real(2, 6, 5) > 0, x, y),
    }
    if name in own:
        return [own[name]]
    found = [(x,), (x, 1), (x, y), (x, 2.0), (x, 0, 1), ([x, y],), (x, real(2, 6, 5)), (x, [0, 2, 1]), (x, (2, 6, 5))]
    found += [(x, 1, SOME), (x, 1, FIRST), (x, 2, 1), (x, real(4, 5)), (x, real(4, 6, 1)), (x, x.transpose(1, 2))]
    return found


def values(q):
    """Values other than the default, by the name of the argument."""
    return {
        "accumulate": [True],
        "align_corners": [True],
        "alpha": [2.0],
        "antialias": [True],
        "append": [q(2, 6, 1)],
        "attn_mask": [real(6, 6) > 0],
        "beta": [3.0],
        "bias": [real(4), real(6)],
        "ceil_mode": [True],
        "correction": [0],
        "count_include_pad": [False],
        "descending": [True],
        "dilation": [2],
        "dim": [0, 1, 2],
        "dim0": [0],
        "dim1": [0],
        "dims": [(0, 1)],
        "divisor_override": [3],
        "dropout_p": [0.5],
        "dtype": [torch.float32],
        "enable_gqa": [True],
        "end": [2],
        "end_dim": [1],
        "eps": [0.5],
        "groups": [2],
        "is_causal": [True],
        "keepdim": [True],
        "largest": [False],
        "max": [0.1],
        "min": [0.2],
        "mode": ["linear", "reflect"],
        "momentum": [0.9],
        "n": [2],
        "offset": [1],
        "ord": [1],
        "output_size": [3],
        "p": [1.0, 0.9],
        "padding": [1],
        "prepend": [q(2, 6, 1)],
        "repeats": [2],
        "return_indices": [True],
        "rounding_mode": ["floor"],
        "running_mean": [real(6)],
        "running_var": [real(6).abs()],
        "scale": [3.0],
        "scale_factor": [2.0],
        "shifts": [2],
        "start": [1],
        "start_dim": [1],
        "step": [2],
        "stride": [2],
        "training": [True, False],
        "unbiased": [False],
        "use_input_stats": [False],
        "value": [2.0],
        "weight": [real(6)],
    }


ACTIVATIONS = {"celu", "elu", "gelu", "leaky_relu", "rrelu", "softplus", "hardswish"}
"""The paper's ReLU rule has no slope: it replaces all of them (docs/rules.md)."""


def documented():
    """Name → the functions and signatures that torch documents under it."""
    found = {}
    for function, signature in get_testing_overrides().items():
        found.setdefault(getattr(function, "__name__", ""), []).append((function, inspect.signature(signature).parameters))
    return found


DOCUMENTED = documented()


def registered():
    rule_set, names = get_rules("paper"), set()
    while rule_set:
        names |= set(rule_set.functions)
        rule_set = rule_set.parent
    return [("paper", name) for name in sorted(names)] + [
        (rules, name) for rules in ("full", "vector-neurons") for name in sorted(get_rules(rules).functions)
    ]


def attempt(function, arguments, **named):
    torch.manual_seed(0)
    return function(*arguments, **named)


def plain(value):
    """The same call on the first imaginary part: what torch itself does."""
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    return value.components[0] if isinstance(value, QuaternionTensor) else value


def tensors(result):
    if isinstance(result, QuaternionTensor):
        return [result.components]
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors(item)]
    return [result] if isinstance(result, torch.Tensor) else []


def same(a, b):
    a, b = tensors(a), tensors(b)
    return len(a) == len(b) and all(
        s.shape == t.shape and s.dtype == t.dtype and torch.equal(s, t) for s, t in zip(a, b, strict=True)
    )


def torch_changes(function, arguments, named):
    """Whether torch itself knows this value and gives another result with it; an error of torch's counts as a change."""
    usual = attempt(function, plain(arguments))
    try:
        return not same(usual, attempt(function, plain(arguments), **plain_named(named)))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None


def plain_named(named):
    return {name: plain(value) for name, value in named.items()}


def dropped(rules, name, function, parameters):
    """The arguments that make no difference though they should, and errors that are not ours."""
    q = Features(rules)
    for arguments in calls(name, q):
        try:
            usual = attempt(function, arguments)
            attempt(function, plain(arguments))
            break
        except (ReqnnError, RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
            continue
    else:
        return
    choices = values(q)
    for place, parameter in enumerate(parameters.values()):
        if (place < len(arguments) and parameter.kind != parameter.KEYWORD_ONLY) or parameter.name not in choices:
            continue
        for value in choices[parameter.name]:
            named = {parameter.name: value}
            changes = torch_changes(function, arguments, named)
            try:
                result = attempt(function, arguments, **named)
            except ReqnnError:
                continue
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                if changes is not None:
                    yield f"{name}({parameter.name}=…): {type(error).__name__}: {error}"
                continue
            if same(usual, result) and changes is not False:
                yield f"{name}({parameter.name}=…) is dropped"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("rules", "name"), [pair for pair in registered() if pair[1] in DOCUMENTED and pair[1] != "cuda"])
def test_no_argument_is_dropped(rules, name):
    if rules == "paper" and name in ACTIVATIONS:
        pytest.skip("the ReLU rule has no slope")
    found = [line for function, parameters in DOCUMENTED[name] for line in dropped(rules, name, function, parameters)]
    assert not found


def test_most_rules_are_called():
    """The sweep would pass if it called nothing."""
    called = 0
    for rules, name in registered():
        for function, _ in DOCUMENTED.get(name, []) if name != "cuda" else []:
            for arguments in calls(name, Features(rules)):
                try:
                    attempt(function, arguments)
                except (ReqnnError, RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
                    continue
                called += 1
                break
    assert called > 200
