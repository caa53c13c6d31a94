"""Harmonic analysis on SO(3) against sums that spell it out, and Wigner matrices against those of e3nn."""

import math

import numpy as np
import pytest
import torch
from e3nn import o3
from scipy.spatial.transform import Rotation

from reqnn.models.so3 import SO3Convolution, SO3Transform, wigner_d

B = 3
ANGLES = 2 * math.pi * np.arange(2 * B) / (2 * B)
GRID = [(a, (j + 0.5) * math.pi / (2 * B), c) for j in range(2 * B) for a in ANGLES for c in ANGLES]  # order β, α, γ


def signal(spectrum, rotation):
    """Σ_l (2l+1) Σ_mn X^l_mn d^l_mn(β) e^{i(mα+nγ)} at one rotation, of a spectrum (b, b, 2b) with m ≥ 0 of a real signal."""
    alpha, beta, gamma = rotation.as_euler("ZYZ")
    total = 0.0
    for degree in range(B):
        d = wigner_d(degree, torch.tensor([beta], dtype=torch.float64))[0]
        for m in range(degree + 1):
            for n in range(-degree, degree + 1):
                wave = (2 * degree + 1) * d[degree + m, degree + n] * np.exp(1j * (m * alpha + n * gamma))
                total += (2 if m else 1) * (complex(spectrum[degree, m, n]) * wave).real  # −m is the conjugate of m
    return float(total)


@pytest.fixture
def _float64():
    """The precision of e3nn's generators is torch's default."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("degree", [0, 1, 2, 5, 20])
def test_wigner_matrices_are_those_of_e3nn(degree):
    """D^l_mn(α, β, γ) = e^{imα} d^l_mn(β) e^{inγ}; e3nn's are real, in another basis."""
    alpha, beta, gamma = torch.tensor([0.4, 2.1, -0.7])
    basis = o3.change_basis_real_to_complex(degree)
    expected = basis @ o3.wigner_D(degree, alpha, beta, gamma).to(basis.dtype) @ basis.mH
    m = torch.arange(-degree, degree + 1)
    ours = torch.exp(1j * m * alpha)[:, None] * wigner_d(degree, beta[None])[0] * torch.exp(1j * m * gamma)
    torch.testing.assert_close(ours, expected, atol=1e-12, rtol=0)


def random_spectrum(transform, channels=2):
    torch.manual_seed(0)
    return transform(torch.randn(1, channels, 2 * B, 2 * B, 2 * B).double())


def test_transform_and_inverse():
    transform = SO3Transform(B)
    spectrum = random_spectrum(transform)
    x = transform.inverse(spectrum)
    torch.testing.assert_close(transform(x), spectrum)
    expected = [signal(spectrum[0, 0], Rotation.from_euler("ZYZ", angles)) for angles in GRID[::7]]
    torch.testing.assert_close(x[0, 0].flatten()[::7], torch.tensor(expected).double())


@pytest.mark.parametrize("sphere", [False, True])
def test_convolution_is_a_sum_over_the_ring(sphere):
    """z(R) = Σ_i k_i x(R·r_i), r_i on the equator: what rotates x from the left rotates z."""
    transform, conv = SO3Transform(B), SO3Convolution(2, 1, B, sphere).double()
    if sphere:
        torch.manual_seed(0)
        given = transform.sphere(torch.randn(1, 2, 2 * B, 2 * B).double())
        spectrum = torch.nn.functional.pad(given, (0, 2 * B - 1))
    else:
        given = spectrum = random_spectrum(transform)
    z, kernel = transform.inverse(conv(given)).detach(), conv.kernel.detach()
    ring = [Rotation.from_euler("ZYZ", (-a, math.pi / 2, 0)) for a in ANGLES]
    for place in (3, 100, 211):
        here = Rotation.from_euler("ZYZ", GRID[place])
        parts = [float(kernel[0, c, i]) * signal(spectrum[0, c], here * r) for c in range(2) for i, r in enumerate(ring)]
        torch.testing.assert_close(z[0, 0].flatten()[place].item(), conv.scale * sum(parts))
