"""Find an object among others in any orientation, by rotation-invariant embeddings of a revised network.

The embedding is the input of the last layer. Even fresh weights give one that no rotation changes; train the network to
make it robust to other changes.

python examples/retrieval.py
"""

import torch

import reqnn

torch.manual_seed(0)
options = {"width": 0.125, "k": 8, "num_classes": 10}
net = reqnn.create_model("dgcnn", equivariant=True, rules="full", **options)
original = reqnn.create_model("dgcnn", **options)
objects = reqnn.data.surfaces(16, 128, dtype=torch.float32)[0]


def embed(network, clouds):
    """Unit embeddings (B, C): what the last Linear is given."""
    kept = []
    last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
    handle = last.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    with torch.no_grad():
        network(clouds)
    handle.remove()
    return torch.nn.functional.normalize(kept[0] - kept[0].mean(0), dim=-1)


def found(network):
    """The share of rotated objects whose nearest neighbour is the same object, upright."""
    network.train()(objects)  # batch-norm statistics
    network.eval()
    rotations = reqnn.quaternion.random_matrix(len(objects))
    similarity = embed(network, objects @ rotations.mT) @ embed(network, objects).T
    return (similarity.argmax(1) == torch.arange(len(objects))).float().mean().item()


revised, ordinary = found(net), found(original)
print(f"found again: revised network {revised:.0%}, ordinary network {ordinary:.0%}")
assert revised == 1
assert revised > ordinary
