"""How far a function is from turning with its input, and inputs to ask it with: zeros, duplicates, one point, C = 1."""

import torch
from hypothesis import strategies as st

from reqnn import quaternion, testing
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor, from_real
from reqnn.tensor.context import Context, default_context

seeds = st.integers(0, 2**31 - 1)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def rotation_matrix(seed, dtype=torch.float64):
    """A rotation, uniform on SO(3)."""
    return quaternion.random_matrix((), generator(seed), dtype)


CUBE = [torch.eye(3, dtype=torch.float64)[list(order)] for order in ((1, 2, 0), (2, 0, 1))]
CUBE += [torch.diag(torch.tensor(signs, dtype=torch.float64)) for signs in ((1, -1, -1), (-1, -1, 1))]
rotations = st.one_of(seeds.map(rotation_matrix), st.sampled_from(CUBE))


def draw(seed, *shape, dtype=torch.float64):
    """Plain quaternion features of that shape."""
    return QuaternionTensor(torch.randn(3, *shape, generator=generator(seed), dtype=torch.float64).to(dtype))


def cloud(seed, *shape, axis=-1, dtype=torch.float64):
    """Raw coordinates (vectors on `axis`) of that shape."""
    return from_real(torch.randn(*shape, generator=generator(seed), dtype=torch.float64).to(dtype), axis)


@st.composite
def features(draw_from, rank=3, least=1, most=5):
    """Quaternion features of any small shape, some of them zero, some rows equal."""
    shape = draw_from(st.lists(st.integers(least, most), min_size=rank, max_size=rank))
    x = draw(draw_from(seeds), *shape).components * draw_from(st.sampled_from([1e-3, 1.0, 30.0]))
    if draw_from(st.booleans()):
        x = x * (torch.rand(shape, generator=generator(draw_from(seeds))) < 0.6)
    if draw_from(st.booleans()):
        x[..., -1] = x[..., 0]
    return QuaternionTensor(x)


def with_options(x, **options):
    """The same features under the paper's rules with other constants."""
    return QuaternionTensor(x.components, x.axis, x.vectors, Context(get_rules("paper").with_options(**options)))


def strict(x):
    """The same features where only the paper's own rules hold."""
    context = default_context()
    context.strict = True
    return QuaternionTensor(x.components, x.axis, x.vectors, context)


def turned(x, rotation, axis=None):
    """R·x; a real tensor has its vectors on `axis`, and without one it is invariant."""
    return testing.rotated(x, rotation, axis)


def difference(a, b):
    """The largest difference of two results, relative to the larger of 1 and b's largest element."""
    return testing.relative_error(a, b)


def equivariance_error(function, x, rotation, axis=None):
    """max |f(R·x) − R·f(x)|, relative; `axis`: where plain real tensors hold 3·C channels."""
    return testing.equivariance_error(function, x, rotation, axis=axis, out_axis=axis)


def assert_equivariant(function, x, rotation, axis=None, tolerance=1e-10):
    testing.assert_equivariant(function, x, rotation, axis=axis, out_axis=axis, tolerance=tolerance)


def assert_not_equivariant(function, shape=(2, 6, 5), axis=1):
    """The original operation on 3·C real channels."""
    x = torch.randn(*shape, generator=generator(0), dtype=torch.float64)
    assert equivariance_error(function, x, rotation_matrix(1), axis) > 1e-3


def assert_gradients(function, *shape, seed=0):
    """gradcheck of a function of quaternion features of that shape."""
    components = draw(seed, *shape).components.requires_grad_()

    def on_components(parts):
        out = function(QuaternionTensor(parts))
        out = out[0] if isinstance(out, tuple) else out
        return out.components if isinstance(out, QuaternionTensor) else out

    assert torch.autograd.gradcheck(on_components, (components,))


def gradient(function, components):
    """d(Σ f²)/d components."""
    leaf = components.clone().requires_grad_()
    out = function(QuaternionTensor(leaf))
    out = out[0] if isinstance(out, tuple) else out
    (out.squared_norm() if isinstance(out, QuaternionTensor) else out).sum().backward()
    return leaf.grad


def assert_finite_gradients(function, *shape):
    """At zero vectors, at ties and duplicates, and where ‖f‖ = 1."""
    basis = torch.zeros(3, *shape, dtype=torch.float64)
    basis[0] = 1
    for components in (
        torch.zeros_like(basis),
        basis,
        draw(3, *shape).components * (draw(4, *shape).components[:1] > 0),
    ):
        assert gradient(function, components).isfinite().all()
