"""Attention: written by hand, from torch's modules, with relative positions, and as offsets."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class HandWritten(nn.Module):
    """(B, N, 3); several heads by view and transpose, softmax of scaled products."""

    def __init__(self, classes=5, width=12, heads=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(3, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x)
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        out = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, n, c)
        x = self.norm(x + self.proj(out))
        return self.head(x.mean(dim=1))


class Encoder(nn.Module):
    """(B, N, 3); torch's own encoder layer, and a MultiheadAttention with the sequence first."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.layer = nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=16, dropout=0.1, batch_first=True)
        self.attend = nn.MultiheadAttention(width, 3)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.layer(self.embed(x)).transpose(0, 1)
        out, weights = self.attend(x, x, x)
        assert weights.shape[-1] == x.shape[0]
        return self.head((x + out).max(dim=0)[0])


class OffsetAttention(nn.Module):
    """(B, 3, N); what attention leaves over goes through the layer, weights normalised twice."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.embed = nn.Conv1d(3, width, 1)
        self.query, self.key = nn.Conv1d(width, 4, 1, bias=False), nn.Conv1d(width, 4, 1, bias=False)
        self.key.weight = self.query.weight
        self.value = nn.Conv1d(width, width, 1)
        self.after = nn.Sequential(nn.Conv1d(width, width, 1), nn.BatchNorm1d(width), nn.ReLU())
        self.softmax = nn.Softmax(dim=-1)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x)
        energy = torch.bmm(self.query(x).permute(0, 2, 1), self.key(x))
        weights = self.softmax(energy)
        weights = weights / (1e-9 + weights.sum(dim=1, keepdims=True))
        x = x + self.after(x - torch.bmm(self.value(x), weights))
        return self.head(torch.max(x, 2)[0])


class VectorAttention(nn.Module):
    """(B, N, 3); a weight for each channel, from q − k + position through a small network, softmax over neighbours."""

    def __init__(self, classes=5, width=12, k=5):
        super().__init__()
        self.k = k
        self.embed = nn.Linear(3, width)
        self.q, self.key, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.position = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, xyz):
        distance = ((xyz[:, :, None] - xyz[:, None]) ** 2).sum(-1)
        index = distance.argsort(dim=-1)[:, :, : self.k]
        rows = torch.arange(xyz.shape[0])[:, None, None]
        f = self.embed(xyz)
        position = self.position(xyz[:, :, None] - xyz[rows, index])
        weights = self.weigh(self.q(f)[:, :, None] - self.key(f)[rows, index] + position)
        weights = F.softmax(weights / math.sqrt(f.shape[-1]), dim=-2)
        f = torch.einsum("bnkc,bnkc->bnc", weights, self.v(f)[rows, index] + position) + f
        return self.head(f.mean(1))


class Stack(nn.Module):
    """(B, N, 3); torch's stacked encoder, normalised first, with positions from coordinates added."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 16, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.embed, self.position = nn.Linear(3, width), nn.Linear(3, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.position(x - x.mean(1, True))).mean(1))


class LearnedQueries(nn.Module):
    """(B, N, 3); a few learned queries read the points, by a layer and by the function."""

    def __init__(self, classes=5, width=8, queries=4):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.read = nn.MultiheadAttention(width, 2, batch_first=True)
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, xyz):
        features = self.local(xyz)
        queries = self.queries.expand(len(xyz), -1, -1)
        queries = queries + self.read(queries, features, features)[0]
        read = F.scaled_dot_product_attention(queries, self.key(features), self.value(features))
        return self.head(read.flatten(0, 1)).unflatten(0, read.shape[:2]).mean(1)
