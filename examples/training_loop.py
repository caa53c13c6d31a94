"""A training loop in plain PyTorch for a revised network: trained upright, tested rotated, audited at the end.

python examples/training_loop.py
"""

import torch
import torch.nn.functional as F

import reqnn

torch.manual_seed(0)
CLASSES, STEPS = 6, 30
surfaces = reqnn.data.surfaces(CLASSES, 512, dtype=torch.float32)[0]  # one object per class


def sample(count):
    """Noisy samplings (B, 64, 3) of the objects, upright, and their labels."""
    labels = torch.arange(CLASSES).repeat(count)
    chosen = torch.rand(len(labels), 512).topk(64).indices
    clouds = surfaces[labels[:, None], chosen]
    return clouds + 0.01 * torch.randn_like(clouds), labels


def accuracy(net, clouds, labels):
    """Share of right answers."""
    with torch.no_grad():
        return (net(clouds).argmax(1) == labels).float().mean().item()


model = reqnn.create_model(
    "pointnet2", num_classes=CLASSES, width=0.125, npoint=(16, 4), radius=(0.5, 1.0), nsample=(8, 4), dropout=0.0
)
net = reqnn.revise(model, sample(1)[0], rules="full")
optimizer = torch.optim.AdamW(net.parameters(), lr=0.003)
for step in range(STEPS):
    clouds, labels = sample(4)
    loss = F.cross_entropy(net(clouds), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.3f}")

with torch.no_grad():  # batch-norm statistics follow the weights with a delay: let them catch up
    for _ in range(20):
        net(sample(4)[0])
net.eval()
clouds, labels = sample(4)
rotations = reqnn.quaternion.random_matrix(len(clouds))
upright, rotated = accuracy(net, clouds, labels), accuracy(net, clouds @ rotations.mT, labels)
print(f"upright {upright:.0%}, rotated {rotated:.0%}")
assert abs(upright - rotated) < 0.1
assert rotated > 1.5 / CLASSES  # better than chance

report = reqnn.audit(net, clouds[:4], rotations=4, permutations=2)
print(report)
assert report.ok
