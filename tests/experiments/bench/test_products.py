"""Products are counted from shapes: against layers whose products are known."""

import pytest
import torch
from torch import nn

from experiments.bench.limit import PRODUCTS, measure_limit
from experiments.bench.products import Product, dgcnn_products, record_products, replay
from experiments.bench.variants import FUSED
from reqnn.zoo import create_model


def test_multiply_adds():
    assert Product(2, 3, 4, 5).multiply_adds == 120


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: torch.ones(3, 4) @ torch.ones(4, 5), Product(1, 3, 4, 5)),
        (lambda: torch.ones(2, 3, 4) @ torch.ones(2, 4, 5), Product(2, 3, 4, 5)),
        (lambda: nn.Linear(4, 5)(torch.ones(3, 4)), Product(1, 3, 4, 5)),
        (lambda: nn.Conv1d(4, 5, 1)(torch.ones(2, 4, 6)), Product(1, 12, 4, 5)),
        (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2)(torch.ones(2, 4, 5, 5)), Product(2, 50, 18, 3)),
    ],
)
def test_recorder(call, expected):
    with torch.no_grad():
        assert record_products(call) == [expected]
    assert record_products(lambda: torch.ones(3) + 1) == []


def test_recorder_sees_backward():
    x = torch.ones(3, 4, requires_grad=True)
    w = torch.ones(4, 5, requires_grad=True)
    recorded = record_products(lambda: (x @ w).sum().backward())
    assert sum(product.multiply_adds for product in recorded) == 3 * 60


def test_products_of_the_published_network():
    products = dgcnn_products(create_model("dgcnn"), 16, 1024)
    rows = 3 * 16 * 1024
    edge = [Product(1, rows, c, o) for c, o in ((1, 64), (64, 64), (64, 128), (128, 256)) for _ in range(2)]
    search = [Product(16, 1024, 3 * c, 1024) for c in (64, 64, 128)]
    rest = [Product(1, rows, 512, 1024), Product(1, 16 * 1024, 1024, 1024)]
    head = [Product(1, 16, 2048, 512), Product(1, 16, 512, 256), Product(1, 16, 256, 40)]
    assert sorted(products) == sorted([*edge, *search, *rest, *head])


def test_replay_makes_the_products_and_no_others():
    products = [Product(1, 6, 4, 5), Product(3, 7, 4, 5), Product(1, 6, 4, 5), Product(2, 1, 1, 1)]
    assert record_products(replay(products)) == products


def test_limit(settings):
    fused, alone = measure_limit(settings, lambda message: None)
    assert (fused["variant"], alone["variant"]) == (FUSED, PRODUCTS)
    assert alone["relative"]["median"] == 1
    assert fused["relative"]["median"] > 0
    assert fused["multiply_adds"] == alone["multiply_adds"] > 0
    assert alone["gigaflops"] > 0
