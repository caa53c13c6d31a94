import numpy as np
import pytest
import torch
from written_data import clouds, write_hdf5

from reqnn.data import load
from reqnn.errors import InputError


def write(folder, variant="", **changes):
    for split in ("training", "test"):
        fields = {"data": clouds(6, 20), "label": np.arange(6) % 15, "mask": np.zeros((6, 20), int), **changes}
        write_hdf5(folder / f"{split}_objectdataset{variant}.h5", **fields)


@pytest.mark.parametrize("place", [".", "main_split", "h5_files/main_split"])
def test_the_release_and_its_folders(tmp_path, place):
    write(tmp_path / "ScanObjectNN" / place)
    found = load("scanobjectnn", "train", 16, root=tmp_path)
    assert found.points.shape == (6, 16, 3)
    assert len(found.classes) == 15
    assert (found.name, found.up) == ("scanobjectnn", "y")
    assert torch.allclose(found.points.norm(dim=-1).amax(1), torch.ones(6))
    assert load(tmp_path / "ScanObjectNN", "test", 16).name == "scanobjectnn"


def test_variants_are_chosen_by_name(tmp_path):
    write(tmp_path)
    write(tmp_path, "_augmentedrot_scale75", label=np.full(6, 4))
    with pytest.raises(InputError, match="2 variants; choose one: variant= '', 'augmentedrot_scale75'"):
        load(tmp_path, "train", 16)
    assert load(tmp_path, "train", 16, variant="").labels.tolist() == list(range(6))
    assert load(tmp_path, "train", 16, variant="augmentedrot_scale75").labels.tolist() == [4] * 6
    with pytest.raises(InputError, match="of variant 'augmentedrot'; there are '', 'augmentedrot_scale75'"):
        load(tmp_path, "train", 16, variant="augmentedrot")


def test_a_missing_split(tmp_path):
    write(tmp_path)
    (tmp_path / "test_objectdataset.h5").unlink()
    with pytest.raises(InputError, match=r"no test_objectdataset\*\.h5; download this split too"):
        load(tmp_path, "test", 16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": np.full(6, 15)}, "cloud 0 is labelled 15; labels are 0 to 14"),
        ({"mask": np.zeros((6, 19))}, "field 'mask' has shape"),
        ({"data": np.ones((6, 20, 3))}, "cloud 0: its 16 points coincide"),
    ],
)
def test_bad_fields(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(InputError, match=message):
        load(tmp_path, "train", 16)
