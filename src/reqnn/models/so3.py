"""Harmonic analysis on the rotation group: Wigner matrices, Fourier transforms, convolutions (Cohen et al., ICLR 2018).

A signal of bandwidth b is sampled at β_j = (j + ½)π/2b, α_i = 2πi/2b, γ_k = 2πk/2b. Its spectrum X^l_mn, l < b, holds 0 ≤ m < b
only, since the signal is real; n are the bins of a Fourier transform of length 2b, with zeros for |n| > l.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn


def wigner_d(degree: int, beta: Tensor) -> Tensor:
    """d^l_mn(β) = ⟨m|exp(−iβJ_y)|n⟩, m and n from −l to l: exact to rounding, by the eigenvectors of J_y.

    Shapes: beta (J,) float64 → (J, 2l+1, 2l+1).
    """
    m = torch.arange(-degree, degree, dtype=torch.float64, device=beta.device)
    raising = torch.diag((degree * (degree + 1) - m * (m + 1)).sqrt(), -1)  # J_+, which takes |m⟩ to |m + 1⟩
    momentum, vectors = torch.linalg.eigh((raising - raising.mT) / 2j)
    phases = torch.exp(-1j * beta[:, None] * momentum.round())
    return ((vectors * phases[:, None]) @ vectors.mH).real


@lru_cache(maxsize=8)
def wigner_tables(b: int) -> tuple[Tensor, Tensor]:
    """d^l_mn at the grid's β_j and at π/2, in float64; m and n as bins of a Fourier transform of length 2b.

    Shapes: (l b, m b, n 2b, j 2b) with m ≥ 0, and (l b, m 2b, n 2b).
    """
    beta = (torch.arange(2 * b, dtype=torch.float64, device="cpu") + 0.5) * math.pi / (2 * b)
    beta = torch.cat([beta, torch.tensor([math.pi / 2], dtype=torch.float64, device="cpu")])
    table = torch.zeros(b, 2 * b, 2 * b, 2 * b + 1, dtype=torch.float64, device="cpu")
    for degree in range(b):
        bins = torch.arange(-degree, degree + 1, device="cpu") % (2 * b)
        table[degree, bins[:, None], bins] = wigner_d(degree, beta).permute(1, 2, 0)
    return table[:, :b, :, :-1].clone(), table[..., -1].clone()


def quadrature_weights(b: int) -> Tensor:
    """Weights (2b,) of the grid's β_j with which the transform of a band-limited signal is exact."""
    odd = 2 * torch.arange(2 * b, dtype=torch.float64, device="cpu") + 1
    series = (torch.sin(odd[:, None] * odd[:b] * math.pi / (4 * b)) / odd[:b]).sum(1)
    return 2 / b * torch.sin(odd * math.pi / (4 * b)) * series / (2 * (2 * b) ** 2)


class SO3Transform(nn.Module):
    """The Fourier transform of real signals on SO(3), or on the sphere, where n = 0 only, and its inverse.

    X^l_mn = Σ_j w_j d^l_mn(β_j) FFT_{α,γ}(x)(β_j, m, n);  x = Σ_l (2l+1) Σ_mn X^l_mn d^l_mn(β_j) e^{i(mα+nγ)}
    """

    weighted: Tensor
    multiplied: Tensor

    def __init__(self, b: int) -> None:
        super().__init__()
        self.b = b
        table, _ = wigner_tables(b)
        degrees = 2 * torch.arange(b, dtype=torch.float64, device="cpu") + 1
        self.register_buffer("weighted", table * quadrature_weights(b), persistent=False)
        self.register_buffer("multiplied", table * degrees[:, None, None, None], persistent=False)

    def sphere(self, x: Tensor) -> Tensor:
        """Spectrum (B, C, b, b, 1) of signals (B, C, 2b, 2b) over β and α, as that of signals constant in γ."""
        waves = 2 * self.b * torch.fft.rfft(x, dim=3)[..., : self.b].unsqueeze(4)
        return self._analyse(waves, self.weighted[:, :, :1])

    def forward(self, x: Tensor) -> Tensor:
        """Spectrum (B, C, b, b, 2b) of signals (B, C, 2b, 2b, 2b) over β, α and γ."""
        return self._analyse(torch.fft.rfft2(x, dim=(4, 3))[:, :, :, : self.b], self.weighted)

    def inverse(self, spectrum: Tensor) -> Tensor:
        """Signals (B, C, 2b, 2b, 2b) of spectra (B, C, b, b, 2b)."""
        parts = torch.view_as_real(spectrum)
        waves = torch.einsum("lmnj,bclmnr->bcjmnr", self.multiplied.to(parts.dtype), parts)
        size = 2 * self.b, 2 * self.b
        return torch.fft.irfft2(torch.view_as_complex(waves.contiguous()), s=size, dim=(4, 3), norm="forward")

    @staticmethod
    def _analyse(waves: Tensor, table: Tensor) -> Tensor:
        parts = torch.view_as_real(waves)
        spectrum = torch.einsum("lmnj,bcjmnr->bclmnr", table.to(parts.dtype), parts)
        return torch.view_as_complex(spectrum.contiguous())


class SO3Convolution(nn.Module):
    """Correlation with kernels on the equator, the ring α_i = 2πi/2b, β = π/2, γ = 0: it commutes with rotations of the signal.

    Z^l_mk(out) = Σ_in K̂_{out,in}(k) · Σ_n d^l_kn(π/2) X^l_mn(in), K̂ the Fourier transform of the ring's 2b values: one fixed
    matrix per degree, then one product of channels per k, where a kernel on the whole group needs one per l, k and n.

    Shapes: spectrum (B, C, b, b, 2b), or (B, C, b, b, 1) if `sphere` → (B, O, b, b, 2b).
    """

    equator: Tensor

    def __init__(self, in_channels: int, out_channels: int, b: int, sphere: bool = False) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(out_channels, in_channels, 2 * b).uniform_(-1, 1))
        self.scale = 2 / math.sqrt(2 * b * in_channels) if sphere else 1 / math.sqrt(2 * b * in_channels)
        _, equator = wigner_tables(b)
        self.register_buffer("equator", equator[:, :, :1] if sphere else equator, persistent=False)

    def forward(self, spectrum: Tensor) -> Tensor:
        """The spectrum of the correlation."""
        parts = torch.view_as_real(spectrum)
        rotated = torch.einsum("lkn,bclmnr->bclmkr", self.equator.to(parts.dtype), parts)
        ring = torch.fft.fft(self.kernel * self.scale, dim=2)
        return torch.einsum("ock,bclmk->bolmk", ring, torch.view_as_complex(rotated.contiguous()))
