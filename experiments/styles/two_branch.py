"""GDANet (Xu et al., 2021): edges, then a split into sharp and gentle points whose features attend to the whole cloud."""

import torch
import torch.nn.functional as F
from torch import nn


def knn(x, k):
    """(B, C, N) → indices (B, N, k) of the nearest points, and the negative squared distances (B, N, N)."""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    pairwise_distance = -xx - inner - xx.transpose(2, 1)
    idx = pairwise_distance.topk(k=k, dim=-1)[1]
    return idx, pairwise_distance


def local_operator(x, k):
    """(B, C, N) → edges (B, 2C, N, k): differences, and the neighbours themselves."""
    batch_size, num_points = x.size(0), x.size(2)
    x = x.view(batch_size, -1, num_points)
    idx, _ = knn(x, k=k)
    idx_base = torch.arange(0, batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)

    _, num_dims, _ = x.size()
    x = x.transpose(2, 1).contiguous()
    neighbor = x.view(batch_size * num_points, -1)[idx, :]
    neighbor = neighbor.view(batch_size, num_points, k, num_dims)
    x = x.view(batch_size, num_points, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((neighbor - x, neighbor), dim=3).permute(0, 3, 1, 2)


def geometry_disentangle(x, M, k=64, tau=0.2, sigma=2):
    """(B, C, N) → the M points (B, M, C) where a graph filter changes features most, and the M where least.

    The filter is a weighted mean over the neighbours, its weights a row-normalised Gaussian adjacency matrix that is
    cut off at distance tau.
    """
    batch_size, num_points = x.size(0), x.size(2)
    x = x.view(batch_size, -1, num_points)
    idx, p = knn(x, k=k)

    mask = torch.sqrt(torch.abs(p)) < tau
    w = torch.exp(p / (sigma * sigma))
    w = torch.mul(mask.float(), w)
    b = 1 / torch.sum(w, dim=1)
    b = b.reshape(batch_size, num_points, 1).repeat(1, 1, num_points)
    c = torch.eye(num_points, num_points, device=x.device)
    c = c.expand(batch_size, num_points, num_points)
    A = torch.matmul(b * c, w)

    idx_base = torch.arange(0, batch_size * num_points, device=x.device).view(-1, 1) * num_points
    entries = (idx.view(batch_size * num_points, -1) + idx_base)[:, 1:k]
    A = A.view(-1)[entries.reshape(-1)].reshape(batch_size, num_points, k - 1, 1)

    idx_base = torch.arange(0, batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).reshape(batch_size * num_points, k)[:, 1:k]
    idx = idx.reshape(batch_size * num_points * (k - 1))
    _, num_dims, _ = x.size()
    x = x.transpose(2, 1).contiguous()
    neighbor = x.view(batch_size * num_points, -1)[idx, :]
    neighbor = neighbor.view(batch_size, num_points, k - 1, num_dims)
    n = A.mul(neighbor)
    n = torch.sum(n, dim=2)

    pai = torch.norm(x - n, dim=-1).pow(2)
    sharp = pai.topk(k=M, dim=-1)[1]
    gentle = (-pai).topk(k=M, dim=-1)[1]
    base = torch.arange(0, batch_size, device=x.device).view(-1, 1) * num_points
    xs = x.view(batch_size * num_points, -1)[(sharp + base).view(-1), :]
    xg = x.view(batch_size * num_points, -1)[(gentle + base).view(-1), :]
    return xs.view(batch_size, M, -1), xg.view(batch_size, M, -1)


class SGCAM(nn.Module):
    """Non-local block: every point (B, C, N) attends to the chosen points (B, C, M); weights are plain products / M."""

    def __init__(self, in_channels):
        super().__init__()
        self.inter_channels = max(in_channels // 2, 1)
        self.g = nn.Conv1d(in_channels, self.inter_channels, kernel_size=1, stride=1, padding=0)
        self.W = nn.Sequential(
            nn.Conv1d(self.inter_channels, in_channels, kernel_size=1, stride=1, padding=0), nn.BatchNorm1d(in_channels)
        )
        nn.init.constant_(self.W[1].weight, 0)
        nn.init.constant_(self.W[1].bias, 0)
        self.theta = nn.Conv1d(in_channels, self.inter_channels, kernel_size=1, stride=1, padding=0)
        self.phi = nn.Conv1d(in_channels, self.inter_channels, kernel_size=1, stride=1, padding=0)

    def forward(self, x, x_2):
        """What is attended to is added to the features."""
        batch_size = x.size(0)
        g_x = self.g(x_2).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        phi_x = self.phi(x_2).view(batch_size, self.inter_channels, -1)
        W = torch.matmul(theta_x, phi_x)
        y = torch.matmul(W / W.size(-1), g_x)
        y = y.permute(0, 2, 1).contiguous()
        y = y.view(batch_size, self.inter_channels, *x.size()[2:])
        return self.W(y) + x


class TwoBranchNet(nn.Module):
    """(B, 3, N) → (B, classes)."""

    def __init__(self, classes=40, width=64, k=30, k_filter=64, M=256, hidden=(512, 256)):
        super().__init__()
        self.k, self.k_filter, self.M = k, k_filter, M
        wide, fused = 2 * width, 8 * width
        self.bn1, self.bn11, self.bn12 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm1d(width)
        self.bn2, self.bn21, self.bn22 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm1d(width)
        self.bn3, self.bn31, self.bn32 = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide), nn.BatchNorm1d(wide)
        self.bn4 = nn.BatchNorm1d(fused)

        self.conv1 = nn.Sequential(nn.Conv2d(6, width, kernel_size=1, bias=True), self.bn1)
        self.conv11 = nn.Sequential(nn.Conv2d(width, width, kernel_size=1, bias=True), self.bn11)
        self.conv12 = nn.Sequential(nn.Conv1d(width * 2, width, kernel_size=1, bias=True), self.bn12)
        self.conv2 = nn.Sequential(nn.Conv2d((width + 3) * 2, width, kernel_size=1, bias=True), self.bn2)
        self.conv21 = nn.Sequential(nn.Conv2d(width, width, kernel_size=1, bias=True), self.bn21)
        self.conv22 = nn.Sequential(nn.Conv1d(width * 2, width, kernel_size=1, bias=True), self.bn22)
        self.conv3 = nn.Sequential(nn.Conv2d((width * 2 + 3) * 2, wide, kernel_size=1, bias=True), self.bn3)
        self.conv31 = nn.Sequential(nn.Conv2d(wide, wide, kernel_size=1, bias=True), self.bn31)
        self.conv32 = nn.Sequential(nn.Conv1d(wide, wide, kernel_size=1, bias=True), self.bn32)
        self.conv4 = nn.Sequential(nn.Conv1d(width * 2 + wide, fused, kernel_size=1, bias=True), self.bn4)

        self.SGCAM_1s, self.SGCAM_1g = SGCAM(width), SGCAM(width)
        self.SGCAM_2s, self.SGCAM_2g = SGCAM(width), SGCAM(width)

        self.linear1 = nn.Linear(fused * 2, hidden[0], bias=True)
        self.bn6 = nn.BatchNorm1d(hidden[0])
        self.dp1 = nn.Dropout(p=0.4)
        self.linear2 = nn.Linear(hidden[0], hidden[1], bias=True)
        self.bn7 = nn.BatchNorm1d(hidden[1])
        self.dp2 = nn.Dropout(p=0.4)
        self.linear3 = nn.Linear(hidden[1], classes, bias=True)

    def forward(self, x):
        """Two blocks with sharp and gentle branches, one without; coordinates are joined to the features again."""
        B, _, _ = x.size()
        x1 = local_operator(x, k=self.k)
        x1 = F.relu(self.conv1(x1))
        x1 = F.relu(self.conv11(x1))
        x1 = x1.max(dim=-1, keepdim=False)[0]
        x1s, x1g = geometry_disentangle(x1, self.M, self.k_filter)
        y1s = self.SGCAM_1s(x1, x1s.transpose(2, 1))
        y1g = self.SGCAM_1g(x1, x1g.transpose(2, 1))
        z1 = F.relu(self.conv12(torch.cat([y1s, y1g], 1)))

        x1t = torch.cat((x, z1), dim=1)
        x2 = local_operator(x1t, k=self.k)
        x2 = F.relu(self.conv2(x2))
        x2 = F.relu(self.conv21(x2))
        x2 = x2.max(dim=-1, keepdim=False)[0]
        x2s, x2g = geometry_disentangle(x2, self.M, self.k_filter)
        y2s = self.SGCAM_2s(x2, x2s.transpose(2, 1))
        y2g = self.SGCAM_2g(x2, x2g.transpose(2, 1))
        z2 = F.relu(self.conv22(torch.cat([y2s, y2g], 1)))

        x2t = torch.cat((x1t, z2), dim=1)
        x3 = local_operator(x2t, k=self.k)
        x3 = F.relu(self.conv3(x3))
        x3 = F.relu(self.conv31(x3))
        x3 = x3.max(dim=-1, keepdim=False)[0]
        z3 = F.relu(self.conv32(x3))

        x = F.relu(self.conv4(torch.cat((z1, z2, z3), dim=1)))
        x11 = F.adaptive_max_pool1d(x, 1).view(B, -1)
        x22 = F.adaptive_avg_pool1d(x, 1).view(B, -1)
        x = torch.cat((x11, x22), 1)
        x = self.dp1(F.relu(self.bn6(self.linear1(x))))
        x = self.dp2(F.relu(self.bn7(self.linear2(x))))
        return self.linear3(x)
