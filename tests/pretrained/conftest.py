import pytest

from experiments.weights.export import export_weights


@pytest.fixture(scope="session")
def exported(run_folder, test_digits, tmp_path_factory):
    """The small run, exported once; it is tested and audited there, which takes seconds."""
    return export_weights(run_folder, "exported", tmp_path_factory.mktemp("weights"), clouds=test_digits, copies=2)


@pytest.fixture
def ship(shipped, exported):
    """Put these weights and their card into the folder of weights that ship, by a name of your choice."""

    def copy(name):
        for file in exported.parent.glob("exported.*"):
            content = file.read_bytes()
            if file.suffix == ".json":
                content = content.replace(b'"name": "exported"', f'"name": "{name}"'.encode())
            (shipped / f"{name}{file.suffix}").write_bytes(content)
        return shipped / f"{name}.safetensors"

    return copy
