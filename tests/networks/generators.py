"""Networks that return clouds, or behave in training as they do not in evaluation; in the words of these tests."""

import torch
from torch import nn

from networks.order_dependent import nearest


class Encoder(nn.Module):
    """(B, 3, N) → (B, width); differences to the nearest points beside the points."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.norm, self.second = nn.Conv1d(6, width, 1), nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def forward(self, x):
        x = torch.cat([x, x - nearest(x)], 1)
        return self.second(torch.relu(self.norm(self.first(x)))).amax(-1)


class Keeping(nn.Module):
    """(B, 3, N) → (B, points, 3); layers in lists, and what was computed is kept in the module, as a PCN does."""

    def __init__(self, points=10):
        super().__init__()
        self.encoder, self.points = Encoder(), points
        self.wide, self.out = nn.Linear(16, 16), nn.Linear(16, 3 * points)
        self.layers = [self.wide, nn.ReLU(), self.out]

    def forward(self, x):
        self.code = self.encoder(x)
        y = self.code
        for layer in self.layers:
            y = layer(y)
        self.coarse = y.view(-1, self.points, 3)
        return {"coarse": self.coarse}


class Variational(nn.Module):
    """(B, 3, N) → (B, 3, points), mean and log-variance of the latent, which is drawn in training only."""

    def __init__(self, points=10, latent=8):
        super().__init__()
        self.encoder, self.mean, self.log_variance = Encoder(), nn.Linear(16, latent), nn.Linear(16, latent)
        self.hidden, self.out, self.points = nn.Linear(latent, 16), nn.Linear(16, 3 * points), points

    def forward(self, x):
        code = self.encoder(x)
        mean, log_variance = self.mean(code), self.log_variance(code)
        z = mean
        if self.training:
            deviation = torch.exp(0.5 * log_variance)
            z = mean + torch.randn_like(deviation) * deviation
        return self.out(torch.relu(self.hidden(z))).view(-1, 3, self.points), mean, log_variance


class Denoiser(nn.Module):
    """(B, 3, N) → (B, 3, N); noise is added in training."""

    def __init__(self, always=False):
        super().__init__()
        self.first, self.out, self.always = nn.Conv1d(3, 16, 1), nn.Conv1d(32, 3, 1), always

    def forward(self, x):
        if self.training or self.always:
            x = x + 0.02 * torch.randn_like(x)
        y = torch.relu(self.first(x))
        return x + self.out(torch.cat([y, y.amax(-1, keepdim=True).expand_as(y)], 1))


class Upsampled(nn.Module):
    """(B, 3, N) → (B, 3, 2N); one copy of the cloud behind the other, as PU-Net has them."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv1d(3, 16, 1) for _ in range(2))
        self.out = nn.Conv1d(16, 3, 1)

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return x.repeat(1, 1, 2) + self.out(torch.cat([torch.relu(branch(centred)) for branch in self.branches], 2))


class Merged(nn.Module):
    """(B, 3, N); a predicted cloud is joined with the given one, as in SnowflakeNet, and both are classified."""

    def __init__(self, points=8, classes=5):
        super().__init__()
        self.encoder, self.split, self.coarse = Encoder(), nn.ConvTranspose1d(16, 8, points), nn.Conv1d(8, 3, 1)
        self.again, self.head = Encoder(), nn.Linear(16, classes, bias=False)

    def forward(self, x):
        seeds = self.coarse(torch.relu(self.split(self.encoder(x).unsqueeze(-1))))
        return self.head(self.again(torch.cat([seeds, x], 2)))


class LossInside(nn.Module):
    """Two clouds (B, N, 3) → how far the reconstruction of the first is from the second, and the reconstruction."""

    def __init__(self, points=10):
        super().__init__()
        self.encoder, self.points = Encoder(), points
        self.decoder = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3 * points))

    def forward(self, given, wanted):
        made = self.decoder(self.encoder(given.mT)).view(-1, self.points, 3)
        distance = torch.cdist(made, wanted)
        return distance.amin(1).mean() + distance.amin(2).mean(), made


class WeightNormed(nn.Module):
    """(B, 3, N); layers on coordinates whose weights are computed from others."""

    def __init__(self, classes=5):
        super().__init__()
        wrap = nn.utils.parametrizations.weight_norm
        self.first, self.second = wrap(nn.Conv1d(6, 16, 1)), wrap(nn.Conv1d(16, 16, 1))
        self.norm, self.head = nn.BatchNorm1d(16), nn.utils.parametrizations.spectral_norm(nn.Linear(16, classes, bias=False))

    def forward(self, x):
        x = torch.cat([x, x - nearest(x)], 1)
        return self.head(self.second(torch.relu(self.norm(self.first(x)))).amax(-1))
