"""Removed: what stands where a spatial transformer was."""

import copy
import pickle

import pytest
import torch

from equivariance import assert_equivariant, cloud, rotation_matrix
from reqnn.nn import Removed
from reqnn.tensor.markers import RemovedTransform


def test_the_input_is_passed_on():
    x = cloud(0, 2, 3, 5, axis=1)
    assert Removed()(x) is x
    assert Removed()(x, 1, key=2) is x
    assert repr(Removed()) == "Removed(identity)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_identity_for_each_cloud(dtype):
    x = cloud(0, 2, 3, 5, axis=1, dtype=dtype)
    transform = Removed(3)(x)
    assert isinstance(transform, RemovedTransform)
    assert transform.shape == (2, 3, 3)
    assert transform.dtype == dtype
    assert torch.equal(transform.as_subclass(torch.Tensor), torch.eye(3, dtype=dtype).expand(2, 3, 3))
    assert Removed(3, batched=False)(x).shape == (3, 3)
    assert "3×3" in repr(Removed(3))


def test_as_pointnet_uses_it():
    stn = Removed(3)

    def forward(x):
        transform = stn(x)
        return torch.bmm(x.transpose(2, 1), transform).transpose(2, 1)

    x = cloud(0, 2, 3, 5, axis=1)
    assert torch.equal(forward(x).components, x.components)
    assert_equivariant(forward, x, rotation_matrix(1))


def test_its_regulariser_still_runs():
    """PointNet's ‖I − A Aᵀ‖ of the transform is that of an identity: 0."""
    transform = Removed(4)(torch.zeros(2, 4, 5))
    loss = torch.norm(torch.eye(4)[None] - torch.bmm(transform, transform.transpose(2, 1)), dim=(1, 2)).mean()
    assert loss == 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_their_meaning(duplicate):
    assert isinstance(duplicate(Removed(3)(torch.zeros(2, 3, 5))), RemovedTransform)
