"""The oracle for structural operations: apply the operation to each of the three real component tensors."""

import torch

from reqnn.tensor import QuaternionTensor, from_real


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(ours, parts):
    """A result on quaternions against its three real parts."""
    if isinstance(ours, (tuple, list)):
        assert all(len(part) == len(ours) for part in parts)
        for i, item in enumerate(ours):
            assert_same(item, [part[i] for part in parts])
        return
    assert isinstance(ours, QuaternionTensor)
    assert ours.shape == parts[0].shape
    torch.testing.assert_close(ours.components, torch.stack(list(parts)), rtol=1e-12, atol=1e-12)


def assert_componentwise(operation, *shape):
    components = numbers(3, *shape)
    ours = operation(QuaternionTensor(components.clone()))
    assert_same(ours, [operation(part) for part in components.clone()])


def assert_follows(operation, *shape, axis=-1):
    """On raw coordinates: the plain real form of the result is the operation on the plain real tensor."""
    real = numbers(*shape)
    ours, theirs = operation(from_real(real, axis)), operation(real)
    if not isinstance(ours, (tuple, list)):
        ours, theirs = [ours], [theirs]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.as_real(), b)
