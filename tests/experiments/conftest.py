"""The networks of the experiments have names in the tests that ask for it only."""

import pytest

from reqnn.models import registry


@pytest.fixture(scope="module")
def zoo():
    from experiments.zoo import NAMES, register_networks

    register_networks()
    yield
    for name in NAMES:
        registry._ENTRIES.pop(name)
