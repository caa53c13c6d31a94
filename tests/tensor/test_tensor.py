"""QuaternionTensor itself: how coordinates enter and leave, aliases and in-place operations, copies and gradients.

What each torch function does with one is tested in tests/rules, file by file.
"""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equivariance import cloud, draw, rotation_matrix, turned
from reqnn import quaternion
from reqnn.errors import InputError, NoRuleError
from reqnn.tensor import QuaternionTensor, from_real, safe_sqrt


def real(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# -- from and to real tensors


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.integers(1, 3))
def test_from_real_and_back(vectors, scalars, axis, other):
    shape = [other, other + 1]
    shape.insert(axis, 3 * vectors + scalars)
    x = real(*shape)
    q = from_real(x, axis, scalars=scalars)
    assert q.shape == x.shape
    assert q.components.shape[0] == (4 if scalars else 3)
    assert torch.equal(q.as_real(), x)
    assert torch.equal(from_real(x, axis - 3, scalars=scalars).as_real(), x)


def test_parts_are_x_y_z():
    x = real(2, 5, 6)
    q = from_real(x, -1)
    assert torch.equal(q.components, torch.stack([x[..., [0, 3]], x[..., [1, 4]], x[..., [2, 5]]]))


def test_rotating_the_input_rotates_the_quaternions():
    """R·x as a matrix on the points is R x R̄ on the pure quaternions (paper, equation 1)."""
    x, r = real(2, 5, 3), quaternion.random_rotation((), torch.Generator().manual_seed(3), torch.float64)
    matrix = quaternion.to_matrix(r)
    torch.testing.assert_close(from_real(x @ matrix.T, -1).as_real(), quaternion.rotate(r, x))
    torch.testing.assert_close(turned(from_real(x, -1), matrix).as_real(), quaternion.rotate(r, x))


def test_scalars_have_only_a_real_part():
    q = from_real(real(2, 5, 5), -1, scalars=2)
    assert q.components[0, ..., 0].eq(0).all()
    assert q.components[1:, ..., 1:].eq(0).all()
    assert q.vectors == "vss"
    assert not q.only_scalars
    assert q[..., 3:].only_scalars
    assert torch.equal(q.imaginary(), q.components[1:])
    assert q.general() is q


def test_declared_scalars_alone_are_real_numbers():
    x = real(2, 5, 5)
    colours = from_real(x, -1, scalars=2)[..., 3:]
    torch.testing.assert_close(torch.sigmoid(colours) + 1, torch.sigmoid(x[..., 3:]) + 1)
    torch.testing.assert_close(
        F.linear(colours, torch.ones(4, 2).double(), torch.ones(4).double())[..., 0], x[..., 3:].sum(-1) + 1
    )


@pytest.mark.parametrize(("shape", "axis", "scalars"), [((2, 4), 1, 0), ((2, 3), 1, 3), ((2, 4, 5), 2, 0), ((2, 5), 1, 1)])
def test_from_real_refuses(shape, axis, scalars):
    with pytest.raises(InputError, match="3·V"):
        from_real(torch.zeros(shape), axis, scalars=scalars)


@pytest.mark.parametrize("shape", [(), (2,), (5, 3)])
def test_components_come_first(shape):
    with pytest.raises(InputError, match="components"):
        QuaternionTensor(torch.zeros(shape))


def test_features_have_no_real_form():
    with pytest.raises(NoRuleError, match="Quaternion2Real"):
        draw(0, 2, 3).as_real()


def test_what_the_users_code_sees():
    x = cloud(0, 2, 5, 6)
    assert (tuple(x.shape), x.size(-1), x.dim(), x.numel()) == ((2, 5, 6), 6, 3, 60)
    assert x[:, :, :3].shape[-1] == 3
    assert x.view(2 * 5, 6).shape == (10, 6)
    assert x[..., :3].reshape(2, 1, 5, 3).shape == (2, 1, 5, 3)
    assert isinstance(x, torch.Tensor)


def test_axes_out_of_range():
    with pytest.raises(IndexError, match="out of range"):
        draw(0, 2, 3).dims(2)
    assert draw(0, 2, 3).dims((-1, 0)) == (1, 0)


def test_safe_sqrt():
    x = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
    safe_sqrt(x).sum().backward()
    assert torch.equal(safe_sqrt(x), torch.tensor([0.0, 2.0], dtype=torch.float64))
    assert torch.equal(x.grad, torch.tensor([0.0, 0.25], dtype=torch.float64))


# -- aliases


VIEWS = {
    "slice": (lambda x: x[:, 1:3], lambda c: c[:, :, 1:3]),
    "view": (lambda x: x.view(2, -1), lambda c: c.view(3, 2, -1)),
    "transpose": (lambda x: x.transpose(1, 2), lambda c: c.transpose(2, 3)),
    "view of a view": (
        lambda x: x[:, 1:].unsqueeze(0).permute(0, 3, 2, 1),
        lambda c: c[:, :, 1:].unsqueeze(1).permute(0, 1, 4, 3, 2),
    ),
    "select": (lambda x: x[1], lambda c: c[:, 1]),
    "part of a split": (lambda x: x.split(2, 1)[1], lambda c: c.split(2, 2)[1]),
    "detach": (lambda x: x.detach(), lambda c: c),
    "data": (lambda x: x.data, lambda c: c),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_sees_linear_changes(name):
    view, oracle = VIEWS[name]
    x, y = draw(0, 2, 4, 5), draw(1, 2, 4, 5)
    seen = view(x)
    x *= 2
    x += y
    x[:, 2] = y[:, 0]
    expected = draw(0, 2, 4, 5).components * 2 + y.components
    expected[:, :, 2] = y.components[:, :, 0]
    torch.testing.assert_close(x.components, expected)
    torch.testing.assert_close(seen.components, oracle(expected))


@pytest.mark.parametrize("name", VIEWS)
def test_the_base_sees_linear_changes_of_a_view(name):
    view, oracle = VIEWS[name]
    x = draw(0, 2, 4, 5)
    view(x).mul_(3.0)
    expected = draw(0, 2, 4, 5).components
    oracle(expected).mul_(3.0)
    torch.testing.assert_close(x.components, expected)


@pytest.mark.parametrize(
    "change", [lambda x: F.relu(x, inplace=True), lambda x: x.relu_(), nn.ReLU(inplace=True), lambda x: x.clamp_(min=0)]
)
def test_in_place_activations(change):
    """The name has the new value; a view of the old memory raises, and says where it was changed."""
    x = draw(0, 2, 4)
    view, copied, expected = x[:, :2], x.clone(), F.relu(draw(0, 2, 4))
    result = change(x)
    assert result is x
    assert torch.equal(x.components, expected.components)
    with pytest.raises(NoRuleError, match=r"test_tensor\.py:\d+"):
        view + view
    assert torch.equal((copied * 1).components, draw(0, 2, 4).components)


def test_no_alias_no_complaint():
    x = draw(0, 2, 4)
    y = (x * 2).view(2, 2, 2)
    y.relu_()
    torch.testing.assert_close((x * 1).components, draw(0, 2, 4).components)


def test_a_residual_is_not_disturbed():
    """out += identity, then an in-place ReLU, as residual blocks write it."""
    x = draw(0, 2, 4, 5)
    identity, out = x, x * 0.5
    out += identity
    out = F.relu(out, inplace=True)
    torch.testing.assert_close(out.components, F.relu(draw(0, 2, 4, 5) * 1.5).components)
    torch.testing.assert_close(x.components, draw(0, 2, 4, 5).components)


def test_in_place_dropout_that_does_nothing_leaves_views_alone():
    x = draw(0, 2, 4)
    view = x.view(4, 2)
    F.dropout(x, 0.5, training=False, inplace=True)
    torch.testing.assert_close((view * 1).components.view(3, 2, 4), draw(0, 2, 4).components)


@pytest.mark.parametrize(
    "change", [lambda x: x.unsqueeze_(1), lambda x: x.squeeze_(), lambda x: x.transpose_(0, 1), lambda x: x[0].t_()]
)
def test_in_place_shapes(change):
    parts, x = draw(0, 2, 4).components.clone(), draw(0, 2, 4)
    expected = [change(part) for part in parts]
    result = change(x)
    assert result.shape == expected[0].shape
    assert torch.equal(result.components, torch.stack(expected))


def test_in_place_gradients():
    components = real(3, 2, 4).requires_grad_()
    x = QuaternionTensor(components * 1)
    view = x[:, 1:]
    x *= 3
    F.relu(x, inplace=True)
    x.squared_norm().sum().backward()
    other = real(3, 2, 4).requires_grad_()
    F.relu(QuaternionTensor(other) * 3).squared_norm().sum().backward()
    torch.testing.assert_close(components.grad, other.grad)
    assert view is not None


# -- copies


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), copy.copy, lambda x: x.clone()])
def test_copies(duplicate):
    x = cloud(0, 2, 5, 6)
    y = duplicate(x)
    assert (y.axis, y.vectors) == (x.axis, x.vectors)
    assert torch.equal(y.components, x.components)


def test_it_works_in_containers():
    x, y = draw(0, 2, 4), draw(1, 2, 4)
    assert {x: 1, y: 2}[y] == 2
    assert len({x, y, x}) == 2


# -- the components may store a real part


def test_general_quaternions_meet_pure_ones():
    pure, general = draw(0, 2, 4), draw(1, 2, 4).general()
    assert general.components.shape == (4, 2, 4)
    assert (pure + general).components.shape == (4, 2, 4)
    torch.testing.assert_close((pure + general).imaginary(), pure.components + general.imaginary())
    torch.testing.assert_close(pure * general, pure * QuaternionTensor(general.imaginary()))
    torch.testing.assert_close(general.squared_norm(), draw(1, 2, 4).squared_norm())


def test_two_threads_have_contexts_of_their_own():
    assert draw(0, 2).context is not draw(0, 2).context
    x = draw(0, 2)
    assert (x * 2).context is x.context


def test_rotation_matrix_is_a_rotation():
    """The tests' own rotations."""
    r = rotation_matrix(5)
    torch.testing.assert_close(r @ r.T, torch.eye(3).double())
    torch.testing.assert_close(torch.linalg.det(r), torch.tensor(1.0).double())
