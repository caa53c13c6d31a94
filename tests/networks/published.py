"""More kinds of network that people publish, in small: transformers on patches, vector attention, graphs by scatter."""

import torch
import torch.nn.functional as F
from torch import nn

from experiments.networks.grouping import gather, knn


class MiniPointNet(nn.Module):
    """The encoder of patches in masked autoencoders: each point sees the maximum of its patch."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(inplace=True), nn.Conv1d(width, width, 1)
        )
        self.second = nn.Sequential(nn.Conv1d(2 * width, width, 1), nn.BatchNorm1d(width), nn.ReLU(inplace=True))

    def forward(self, patches):
        batch, groups, count, _ = patches.shape
        x = self.first(patches.reshape(batch * groups, count, 3).transpose(2, 1))
        pooled = torch.max(x, dim=2, keepdim=True)[0]
        x = self.second(torch.cat([pooled.expand(-1, -1, count), x], dim=1))
        return torch.max(x, dim=2, keepdim=False)[0].reshape(batch, groups, -1)


class PatchTransformer(nn.Module):
    """Tokens of patches, a class token with a position of its own, attention with q, k and v from one layer."""

    def __init__(self, classes=5, width=8, heads=2, k=6):
        super().__init__()
        self.k, self.heads, self.scale = k, heads, (width // heads) ** -0.5
        self.encoder = MiniPointNet(width)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(inplace=True), nn.Linear(width, classes))

    def attend(self, x):
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attention = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return self.project((attention @ v).transpose(1, 2).reshape(batch, count, width))

    def forward(self, xyz):
        patches = gather(xyz, knn(xyz, self.k)) - xyz.unsqueeze(2)
        x = torch.cat((self.token.expand(len(xyz), -1, -1), self.encoder(patches)), dim=1)
        position = torch.cat((self.place.expand(len(xyz), -1, -1), self.position(xyz)), dim=1)
        x = x + position
        x = x + self.attend(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(torch.cat([x[:, 0], x[:, 1:].max(1)[0]], dim=-1))


class GroupedVectorAttention(nn.Module):
    """Weights of groups of channels from an MLP of differences, with a multiplier and a bias of encoded positions."""

    def __init__(self, classes=5, width=8, groups=4, k=6):
        super().__init__()
        self.k, self.groups = k, groups
        self.first = nn.Linear(3, width)
        self.q = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.key = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.v = nn.Linear(width, width)
        self.bias = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, groups), nn.ReLU(), nn.Linear(groups, groups))
        self.head = nn.Linear(width, classes)

    def forward(self, xyz):
        index = knn(xyz, self.k)
        x = F.relu(self.first(xyz))
        position = self.bias(gather(xyz, index) - xyz.unsqueeze(2))
        relation = gather(self.key(x), index) - self.q(x).unsqueeze(2) + position
        value = gather(self.v(x), index) + position
        weight = torch.softmax(self.weigh(relation), dim=2)
        value = value.view(*value.shape[:3], self.groups, -1)
        x = torch.einsum("bnkgi,bnkg->bngi", value, weight).flatten(2)
        return self.head(x.max(1)[0])


class AttentivePooling(nn.Module):
    """Relative positions (p_i, p_j, p_i − p_j, ‖p_i − p_j‖) beside features, pooled by attention, twice, with a shortcut."""

    def __init__(self, classes=5, width=8, k=6):
        super().__init__()
        self.k = k
        self.start = nn.Linear(3, width)
        self.near1 = nn.Sequential(nn.Conv2d(10, width // 2, 1), nn.BatchNorm2d(width // 2), nn.ReLU())
        self.near2 = nn.Sequential(nn.Conv2d(width // 2, width // 2, 1), nn.BatchNorm2d(width // 2), nn.ReLU())
        self.enter = nn.Conv2d(width, width // 2, 1)
        self.score1, self.score2 = (nn.Sequential(nn.Linear(width, width, bias=False), nn.Softmax(dim=-2)) for _ in range(2))
        self.pool1, self.pool2 = nn.Conv2d(width, width // 2, 1), nn.Conv2d(width, width, 1)
        self.shortcut, self.norm = nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)
        self.head = nn.Linear(width, classes)

    @staticmethod
    def pool(x, score, mlp):
        weights = score(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return mlp(torch.sum(weights * x, dim=-1, keepdim=True))

    def beside(self, encoded, x, index):
        near = gather(x.squeeze(-1).transpose(1, 2), index).permute(0, 3, 1, 2)
        return torch.cat((encoded, near), dim=-3)

    def forward(self, xyz):
        index = knn(xyz, self.k)
        near = gather(xyz, index)
        tile = xyz.unsqueeze(2).expand_as(near)
        distance = torch.norm(tile - near, dim=-1, keepdim=True)
        encoded = self.near1(torch.cat((tile, near, tile - near, distance), dim=-1).permute(0, 3, 1, 2))
        start = F.leaky_relu(self.start(xyz), 0.2).transpose(1, 2).unsqueeze(-1)
        x = self.pool(self.beside(encoded, self.enter(start), index), self.score1, self.pool1)
        x = self.pool(self.beside(self.near2(encoded), x, index), self.score2, self.pool2)
        x = F.leaky_relu(x + self.norm(self.shortcut(start)), 0.01)
        return self.head(x.squeeze(-1).max(-1)[0])


class CurveAggregation(nn.Module):
    """Attention between and within curves of features, added to them; channels weighted by a squeezed sigmoid."""

    def __init__(self, classes=5, width=8, k=6):
        super().__init__()
        self.k = k
        self.enter, self.norm = nn.Conv2d(9, width, 1), nn.BatchNorm2d(width)
        self.attend = nn.Conv2d(width, 1, 1)
        self.a, self.b, self.mix = nn.Conv1d(width, 4, 1), nn.Conv1d(width, 4, 1), nn.Conv1d(width + 4, width, 1)
        self.squeeze, self.excite = nn.Linear(width, 4), nn.Linear(4, width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, xyz):
        near = gather(xyz, knn(xyz, self.k))
        tile = xyz.unsqueeze(2).expand_as(near)
        x = F.leaky_relu(self.norm(self.enter(torch.cat((tile, near, near - tile), -1).permute(0, 3, 1, 2))), 0.2)
        weights = F.softmax(self.attend(x), dim=-1)
        curve = torch.sum(x * weights, dim=-1)
        x = x.max(-1)[0]
        logits = F.softmax(torch.bmm(self.a(x).transpose(1, 2), self.b(curve)), dim=-1)
        inter = torch.bmm(self.b(curve), logits.transpose(1, 2))
        x = F.leaky_relu(self.mix(torch.cat((x, inter), dim=1)) + x, 0.2)
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean(-1)))))
        x = x * gate.unsqueeze(-1)
        return self.head(torch.cat((F.adaptive_max_pool1d(x, 1).squeeze(-1), F.adaptive_avg_pool1d(x, 1).squeeze(-1)), dim=1))


class Messages(nn.Module):
    """A graph network on lists of points, written with index_add_, scatter_reduce and segment_reduce on zeros."""

    def __init__(self, classes=5, width=8, k=5):
        super().__init__()
        self.k = k
        self.first, self.second = nn.Linear(6, width), nn.Linear(2 * width, width)
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(2 * width, classes)

    def forward(self, xyz):
        batch, count, _ = xyz.shape
        index = (knn(xyz, self.k) + torch.arange(batch).view(-1, 1, 1) * count).flatten()
        centre = torch.arange(batch * count).repeat_interleave(self.k)
        points = xyz.reshape(-1, 3)
        messages = F.relu(self.first(torch.cat([points[centre], F.embedding(index, points) - points[centre]], 1)))
        total = torch.zeros(batch * count, messages.shape[1])
        total = total.to(messages.dtype).index_add_(0, centre, messages)
        longest = messages.new_zeros(batch * count, messages.shape[1])
        longest.scatter_reduce_(0, centre.unsqueeze(1).expand_as(messages), messages, reduce="amax", include_self=False)
        x = self.norm(self.second(torch.cat([total, longest], 1)))
        cloud = torch.arange(batch).repeat_interleave(count)
        mean = x.new_zeros(batch, x.shape[1]).scatter_reduce(0, cloud.unsqueeze(1).expand_as(x), x, "mean", include_self=False)
        largest = torch.segment_reduce(x, "max", lengths=torch.full((batch,), count))
        return self.head(torch.cat([largest, mean], 1))


class PerCoordinate(nn.Module):
    """(B, 3, N); weights per coordinate: parts of a parameter, groups of one coordinate each, groups of vectors."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.gain, self.kernel = nn.Parameter(torch.rand(9) + 0.5), nn.Parameter(torch.randn(6, width))
        self.depth, self.groups = nn.Conv1d(3, width, 1, groups=3), nn.Conv1d(6, width, 1, groups=2)
        self.mix, self.norm, self.head = nn.Conv1d(3 * width, width, 1), nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, x):
        x = x * self.gain[3:6].view(1, 3, 1)
        centred = x - x.mean(-1, keepdim=True)
        pair = x.transpose(1, 2) @ self.kernel[:3] + centred.transpose(1, 2) @ self.kernel[3:]
        x = torch.cat([self.depth(x), self.groups(torch.cat([x, centred], 1)), pair.transpose(1, 2)], 1)
        return self.head(F.relu(self.norm(self.mix(F.relu(x)))).max(-1)[0])
