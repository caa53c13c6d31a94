"""Find an object among others in any orientation, by rotation-invariant embeddings of a revised network.

The embedding is the input of the last layer. Even fresh weights give one that no rotation changes; train the network to
make it robust to other changes.

python examples/retrieval.py
"""

import torch
from torch.nn.functional import normalize

import reqnn

torch.manual_seed(0)
options = {"width": 0.125, "k": 8, "num_classes": 10}
net = reqnn.create_model("dgcnn", equivariant=True, rules="full", **options)
original = reqnn.create_model("dgcnn", **options)
objects = reqnn.data.surfaces(16, 128, dtype=torch.float32)[0]


def found(network):
    """The share of rotated objects whose nearest neighbour is the same object, upright."""
    network.train()(objects)  # batch-norm statistics
    rotations = reqnn.quaternion.random_matrix(len(objects))
    upright, rotated = (reqnn.embed(clouds, network) for clouds in (objects, objects @ rotations.mT))
    middle = upright.mean(0)  # what all embeddings of fresh weights share
    similarity = normalize(rotated - middle, dim=-1) @ normalize(upright - middle, dim=-1).T
    return (similarity.argmax(1) == torch.arange(len(objects))).float().mean().item()


revised, ordinary = found(net), found(original)
print(f"found again: revised network {revised:.0%}, ordinary network {ordinary:.0%}")
assert revised == 1
assert revised > ordinary
