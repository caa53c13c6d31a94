import io

import numpy as np
import pytest
import trimesh
from written_data import BOX, clouds

from reqnn.data.off import parse_off
from reqnn.data.shape_file import SUFFIXES, read_shape
from reqnn.errors import InputError


def box_mesh():
    return trimesh.creation.box(extents=(1, 2, 3))


@pytest.mark.parametrize("suffix", [".off", ".obj", ".ply", ".stl", ".glb"])
def test_meshes_of_every_kind(tmp_path, suffix):
    path = tmp_path / f"box{suffix}"
    box_mesh().export(path)
    shape = read_shape(path)
    assert len(shape.faces) == 12
    assert np.allclose(np.ptp(shape.vertices, axis=0), (1, 2, 3))
    assert np.allclose(shape.vertices[shape.faces].mean(axis=(0, 1)), 0)


@pytest.mark.parametrize("suffix", [".xyz", ".txt", ".pts", ".csv", ".npy", ".npz", ".ply"])
def test_clouds_of_every_kind(tmp_path, suffix):
    path = tmp_path / f"cloud{suffix}"
    cloud = clouds(1, 25)[0]
    if suffix == ".npy":
        np.save(path, cloud)
    elif suffix == ".npz":
        np.savez(path, points=cloud, colour=np.ones(25))
    elif suffix == ".ply":
        trimesh.PointCloud(cloud).export(path)
    else:
        np.savetxt(path, cloud, delimiter="," if suffix == ".csv" else " ", header="a comment")
    shape = read_shape(path)
    assert shape.faces is None
    assert np.allclose(shape.vertices, cloud, atol=1e-6)


def test_every_ending_has_a_test():
    assert set(SUFFIXES) == {".off", ".obj", ".ply", ".stl", ".glb", ".xyz", ".txt", ".pts", ".csv", ".npy", ".npz"} | {
        *(".pcd", ".las", ".laz")  # in test_pcd.py
    }


def test_further_columns_are_kept_apart(tmp_path):
    np.savetxt(tmp_path / "cloud.txt", np.arange(28).reshape(4, 7))
    shape = read_shape(tmp_path / "cloud.txt")
    assert shape.vertices.tolist() == [[0, 1, 2], [7, 8, 9], [14, 15, 16], [21, 22, 23]]
    assert shape.rest.shape == (4, 4)


def test_a_scene_of_several_meshes_is_one(tmp_path):
    scene = trimesh.Scene([box_mesh(), box_mesh().apply_translation((5, 0, 0))])
    scene.export(tmp_path / "two.glb")
    shape = read_shape(tmp_path / "two.glb")
    assert shape.faces.shape == (24, 3)
    assert np.allclose(np.ptp(shape.vertices[shape.faces].reshape(-1, 3), axis=0), (6, 2, 3))


def test_materials_of_an_obj_are_not_looked_for(tmp_path):
    text = "mtllib nowhere.mtl\n" + trimesh.exchange.obj.export_obj(box_mesh())
    (tmp_path / "box.obj").write_text(text)
    assert len(read_shape(tmp_path / "box.obj").faces) == 12


def test_copies_have_one_digest(tmp_path, box_file):
    other = tmp_path / "copy.off"
    other.write_bytes(box_file.read_bytes())
    assert read_shape(other).digest == read_shape(box_file).digest


# -- OFF --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        BOX,
        BOX.replace("OFF\n", "OFF"),  # as hundreds of ModelNet40's files begin: OFF8 6 0
        BOX.replace("OFF\n", "OFF "),
        BOX.replace("OFF\n", "# a comment\nOFF # here\n\n"),
        BOX.replace("\n", "\r\n"),
        BOX.replace("4 0 3 2 1\n", "4 0 3 2 1 255 0 0\n"),  # a coloured face
    ],
)
def test_off_headers_comments_and_colours(text):
    vertices, faces = parse_off(text.encode())
    assert vertices.shape == (8, 3)
    assert faces.shape == (12, 3)
    area = np.linalg.norm(np.cross(*(vertices[faces[:, i]] - vertices[faces[:, 0]] for i in (1, 2))), axis=1).sum() / 2
    assert area == pytest.approx(22)


def test_off_agrees_with_trimesh(tmp_path):
    mesh = trimesh.creation.icosphere(subdivisions=2)
    text = mesh.export(file_type="off")
    ours, theirs = parse_off(text.encode()), trimesh.load_mesh(io.BytesIO(text.encode()), file_type="off", process=False)
    assert np.array_equal(ours[0], theirs.vertices)
    assert np.array_equal(ours[1], theirs.faces)


def test_coloured_vertices():
    text = "COFF\n3 1 0\n" + "".join(f"{i} {i * i} 0 255 0 0 255\n" for i in range(3)) + "3 0 1 2\n"
    assert parse_off(text.encode())[0].tolist() == [[0, 0, 0], [1, 1, 0], [2, 4, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PLY\n", "does not begin with OFF"),
        ("OFF\n", "numbers of vertices and faces are missing"),
        ("OFF\n3 x 0\n", "invalid literal"),
        ("\n".join(BOX.splitlines()[:7]), "says 8 vertices and 6 faces; 5 lines follow: truncated"),
        ("\n".join(BOX.splitlines()[:-1]), "13 lines follow: truncated"),
        (BOX.replace("4 3 0 4 7", "4 3 0"), "a face of 4 corners names 2"),
        (BOX.replace("4 3 0 4 7", "4 3 0 4 8"), "names a vertex beyond"),
        (BOX.replace("4 3 0 4 7", "4 3 0 4 -1"), "names a vertex beyond"),
        (BOX.replace("1 2 0", "1 2"), "fewer than three coordinates"),
    ],
)
def test_damaged_off(tmp_path, text, message):
    (tmp_path / "box.off").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_shape(tmp_path / "box.off")
    assert "box.off" in str(caught.value)


# -- bad files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".off", ".ply", ".stl", ".glb", ".npy", ".npz", ".obj"])
def test_truncated_files(tmp_path, suffix):
    path = tmp_path / f"box{suffix}"
    if suffix == ".npy":
        np.save(path, clouds(1)[0])
    elif suffix == ".npz":
        np.savez(path, points=clouds(1)[0])
    else:
        box_mesh().export(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3] if suffix != ".obj" else b"v 0")
    with pytest.raises(InputError, match=rf"box\{suffix} (cannot be read as|holds no)"):
        read_shape(path)


@pytest.mark.parametrize(("suffix", "kind"), [(".ply", {"encoding": "ascii"}), (".stl", {"file_type": "stl_ascii"})])
def test_text_files_that_break_off(tmp_path, suffix, kind):
    path = tmp_path / f"box{suffix}"
    box_mesh().export(path, **kind)
    assert len(read_shape(path).faces) == 12
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InputError, match=rf"box\{suffix} cannot be read as .*truncated: .*(header says|endsolid)"):
        read_shape(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b" \n", b"\x00\x01garbage \xff\xfe"])
def test_garbage(tmp_path, suffix, content):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.\w+ (is|holds|cannot)"):
        read_shape(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(tmp_path, value):
    cloud = clouds(1)[0]
    cloud[5, 1] = value
    np.save(tmp_path / "cloud.npy", cloud)
    with pytest.raises(InputError, match=r"cloud\.npy: point 5 has NaN or infinite"):
        read_shape(tmp_path / "cloud.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((4, 2)), r"shape \(4, 2\)"),
        (np.ones(12), r"shape \(12,\)"),
        (np.ones((0, 3)), "holds no points"),
        (np.array(["a"]), "numbers are needed"),
        (np.array([{}], dtype=object), "allow_pickle"),
    ],
)
def test_wrong_arrays(tmp_path, array, message):
    np.save(tmp_path / "cloud.npy", array)
    with pytest.raises(InputError, match=message):
        read_shape(tmp_path / "cloud.npy")


def test_an_archive_must_say_which_array(tmp_path):
    np.savez(tmp_path / "cloud.npz", a=clouds(1)[0], b=clouds(1)[0])
    with pytest.raises(InputError, match="it holds a, b; one of them must be called points"):
        read_shape(tmp_path / "cloud.npz")
    np.savez(tmp_path / "cloud.npz", only=clouds(1)[0])
    assert read_shape(tmp_path / "cloud.npz").vertices.shape == (16, 3)


def test_other_files(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"files ending in \.doc are not read; known are \.off"):
        read_shape(tmp_path / "cloud.doc")
    with pytest.raises(InputError, match="cannot be read"):
        read_shape(tmp_path / "missing.off")
    (tmp_path / "folder.off").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read_shape(tmp_path / "folder.off")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        read_shape(tmp_path / "secret.off")
