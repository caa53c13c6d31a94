"""Networks with other outputs: a label for each point, clouds, offsets, dicts; and with several inputs."""

import torch
import torch.nn.functional as F
from torch import nn


class Segmentation(nn.Module):
    """(B, 3, N) → (B, N, classes) log-probabilities; no Linear on (B, C) anywhere."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 16, 1)
        self.conv3, self.conv4 = nn.Conv1d(24, 12, 1), nn.Conv1d(12, classes, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(8), nn.BatchNorm1d(16), nn.BatchNorm1d(12)

    def forward(self, x):
        count = x.size(2)
        local = F.relu(self.bn1(self.conv1(x)))
        whole = torch.max(self.bn2(self.conv2(local)), 2, keepdim=True)[0]
        x = torch.cat([local, whole.view(-1, 16, 1).repeat(1, 1, count)], 1)
        x = self.conv4(F.relu(self.bn3(self.conv3(x))))
        x = x.transpose(2, 1).contiguous()
        return F.log_softmax(x.view(-1, x.shape[-1]), dim=-1).view(x.shape[0], count, x.shape[-1])


class PartSegmentation(nn.Module):
    """(B, 3, N) and a one-hot class (B, 7) → (B, parts, N) scores."""

    def __init__(self, parts=5, categories=7):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 16, 1)
        self.label = nn.Sequential(nn.Conv1d(categories, 4, 1, bias=False), nn.LeakyReLU(0.2))
        self.conv3, self.conv4 = nn.Conv1d(16 + 4 + 8, 12, 1), nn.Conv1d(12, parts, 1)

    def forward(self, x, label):
        local = F.relu(self.conv1(x))
        whole = self.conv2(local).max(dim=-1, keepdim=True)[0]
        label = self.label(label.view(x.size(0), -1, 1))
        whole = torch.cat((whole, label), dim=1).repeat(1, 1, x.size(2))
        return self.conv4(F.relu(self.conv3(torch.cat((whole, local), dim=1))))


class TwoClouds(nn.Module):
    """(B, N, 3) and (B, M, 3) → how alike they are, and both latents, in a dict."""

    def __init__(self, width=12):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.score = nn.Linear(2 * width, 3)

    def forward(self, a, b):
        left, right = self.local(a).amax(1), self.local(b).amax(1)
        return {"score": self.score(torch.cat([left, right], -1)), "product": (left * right).sum(-1)}


class Named(nn.Module):
    """(B, N, 3) → a dict with logits and a moved cloud."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.local = nn.Linear(3, width)
        self.offset = nn.Linear(width, 3)
        self.head = nn.Linear(width, classes)

    def forward(self, xyz):
        f = torch.relu(self.local(xyz))
        return {"logits": self.head(f.mean(1)), "moved": xyz + self.offset(f)}


class Autoencoder(nn.Module):
    """(B, N, 3) → (B, N, 3), point by point with the global feature beside."""

    def __init__(self, width=12):
        super().__init__()
        self.local = nn.Linear(3, width)
        self.hidden, self.out = nn.Linear(2 * width, width), nn.Linear(width, 3)

    def forward(self, x):
        f = torch.relu(self.local(x))
        whole = f.max(1, keepdim=True)[0].expand(-1, x.shape[1], -1)
        return self.out(torch.relu(self.hidden(torch.cat([f, whole], -1))))


class LatentAutoencoder(nn.Module):
    """(B, 3, N) → (B, N, 3) from a global latent, through Linear layers."""

    def __init__(self, count=24, width=16):
        super().__init__()
        self.count = count
        self.encoder = nn.Sequential(nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, width, 1))
        self.decoder = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 3 * count))

    def forward(self, x):
        latent = self.encoder(x).max(-1)[0]
        return self.decoder(latent).view(-1, self.count, 3)


class Offsets(nn.Module):
    """(B, 3, N) → (B, 3, N): each point is moved by what the features say, twice."""

    def __init__(self, width=12):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(3, width, 1), nn.ReLU())
        self.offset = nn.Conv1d(width, 3, 1)
        self.again = nn.Conv1d(3, 3, 1)

    def forward(self, xyz):
        moved = xyz + self.offset(self.features(xyz))
        return moved + self.again(moved)


class Upsampled(nn.Module):
    """(B, 3, N); an autoencoder whose decoder is an image of coordinates, by transposed convolutions."""

    def __init__(self, width=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, width, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(width, 8, 2), nn.ReLU(), nn.ConvTranspose2d(8, 3, 2, stride=2))

    def forward(self, x):
        code = self.encoder(x).amax(2)
        return self.decoder(code.view(*code.shape, 1, 1)).flatten(2)
