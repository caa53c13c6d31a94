"""Text files of points as users have them."""

import numpy as np
import pytest

from reqnn.data import read_cloud
from reqnn.data.shape_file import read_shape
from reqnn.data.tables import parse_table, points_in_rows
from reqnn.errors import InputError

POINTS = np.array([[1.5, -2.25, 3.0], [4.0, 5.5, -0.05], [0.125, 0.0, 7.75], [8.5, 9.5, 1.05]])


def text(separator=" ", comma=False, columns=POINTS):
    lines = "".join(separator.join(f"{value:.3f}" for value in row) + "\n" for row in columns)
    return lines.replace(".", ",") if comma else lines


@pytest.mark.parametrize(
    "content",
    [
        text(),
        text(","),
        text(", "),
        text(";"),
        text("\t"),
        "# made by a scanner\n" + text(),
        "// X Y Z\n" + text(),
        "x,y,z\n" + text(","),
        "\ufeffx;y;z\n" + text(";"),
        '"x","y","z"\n' + text(","),
        "4\n" + text(),
        text(";", comma=True),
        text("\t", comma=True),
        text(" ", comma=True),
        "X;Y;Z\n" + text(";", comma=True),
        text(";", comma=True).replace("0,", ","),
    ],
)
def test_headers_counts_and_separators(content):
    assert np.array_equal(parse_table(content.encode()), POINTS)


def test_a_first_line_of_points_is_no_header():
    with pytest.raises(ValueError, match=r"7\.75x"):
        parse_table(text().replace("1.500 -2.250 3.000", "1.5 -2.25 7.75x").encode())
    with pytest.raises(ValueError, match="no line of numbers"):
        parse_table(b"x y z\n")


def test_columns_by_name():
    table = np.column_stack([np.arange(4), POINTS[:, ::-1]])
    found = parse_table(("id z y x\n" + text(columns=table)).encode())
    assert np.array_equal(found, np.column_stack([POINTS, np.arange(4)]))


def test_a_comma_that_can_be_either_is_refused(tmp_path):
    (tmp_path / "some.csv").write_text(text(",", comma=True))
    with pytest.raises(InputError, match=r"some\.csv .*6 whole numbers, or 3 with decimal commas"):
        read_shape(tmp_path / "some.csv")
    (tmp_path / "some.csv").write_text("1.234,5;2,5;3,5\n")
    with pytest.raises(InputError, match="points and commas in one column"):
        read_shape(tmp_path / "some.csv")
    whole = "10,-20,30,255,0,17\n-4,5,6,255,128,9\n"  # coordinates and colours
    assert parse_table(whole.encode()).tolist() == [[10, -20, 30, 255, 0, 17], [-4, 5, 6, 255, 128, 9]]


def test_a_count_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / "some.pts").write_text("5\n" + text())
    with pytest.raises(InputError, match="says 5 points, and 4 lines follow"):
        read_shape(tmp_path / "some.pts")


def test_a_point_per_column(tmp_path):
    cloud = np.random.default_rng(0).normal(size=(3, 100))
    np.save(tmp_path / "some.npy", cloud)
    assert np.array_equal(read_shape(tmp_path / "some.npy").vertices, cloud.T)
    assert points_in_rows(np.zeros((6, 100))).shape == (100, 6)
    assert points_in_rows(np.zeros((3, 3))).shape == (3, 3)
    assert points_in_rows(np.zeros((100, 64))).shape == (100, 64)
    np.save(tmp_path / "some.npy", cloud[:, :5])
    with pytest.raises(InputError, match="3 points in rows or 5 in columns"):
        read_shape(tmp_path / "some.npy")


def test_an_array_of_three_axes_is_asked_about(tmp_path):
    np.save(tmp_path / "some.npy", np.zeros((4, 5, 3)))
    with pytest.raises(InputError, match=r"\(4, 5, 3\).*array.reshape\(-1, 3\), several clouds in a file each"):
        read_shape(tmp_path / "some.npy")


def test_points_that_are_not_finite_are_left_out_on_request(tmp_path):
    cloud = np.random.default_rng(0).normal(size=(20, 6))
    cloud[[3, 7], 1] = np.nan
    np.savetxt(tmp_path / "scan.xyz", cloud)
    with pytest.raises(InputError, match=r"point 3 has NaN .*--drop-nan"):
        read_cloud(tmp_path / "scan.xyz", 18)
    shape = read_shape(tmp_path / "scan.xyz", drop_nan=True)
    assert np.allclose(shape.vertices, np.delete(cloud, [3, 7], 0)[:, :3])
    assert len(shape.rest) == 18
    assert read_cloud(tmp_path / "scan.xyz", 18, drop_nan=True).isfinite().all()
