import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Small tensors: threads only wait for each other where two test processes share two cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
