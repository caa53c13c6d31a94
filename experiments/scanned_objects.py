"""The objects of the data set `scanned`, from their PLY files: writes what ships in `src/reqnn/data/scanned_objects`.

    python -m experiments.scanned_objects path/to/scanned_objects

The folder holds surface points with normals of models of Google Scanned Objects, one PLY file each; the first comment of a file
is the model's published name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from reqnn.data.sampling import normalise
from reqnn.data.scanned import FOLDER, NORMAL_LEVELS, OBJECTS, POINT_LEVELS

NAMES = {
    "ACE_Coffee_Mug_Kristen_16_oz_cup": "coffee mug",
    "Animal_Planet_Foam_2Headed_Dragon": "two-headed dragon",
    "Baby_Elements_Stacking_Cups": "stacking cups",
    "BAGEL_WITH_CHEESE": "bagel",
    "Black_Decker_Stainless_Steel_Toaster_4_Slice": "toaster",
    "BUILD_A_ROBOT": "toy robot",
    "Calphalon_Kitchen_Essentials_12_Cast_Iron_Fry_Pan_Black": "wide bowl",
    "CAR_CARRIER_TRAIN": "toy train",
    "CASTLE_BLOCKS": "toy castle",
    "Chelsea_BlkHeelPMP_DwxLtZNxLZZ": "high-heeled shoe",
    "Cole_Hardware_Bowl_Scirocco_YellowBlue": "small bowl",
    "Cole_Hardware_Hammer_Black": "hammer",
    "Crosley_Alarm_Clock_Vintage_Metal": "alarm clock",
    "Diamond_Visions_Scissors_Red": "scissors",
    "Dino_4": "crested dinosaur",
    "Dino_5": "triceratops",
    "DPC_Handmade_Hat_Brown": "hat",
    "Ecoforms_Planter_Pot_QP6Ebony": "flower pot",
    "Elephant": "elephant",
    "FIRE_TRUCK": "toy fire truck",
    "Great_Dinos_Triceratops_Toy": "android figure",
    "Jansport_School_Backpack_Blue_Streak": "backpack",
    "My_First_Rolling_Lion": "lion on wheels",
    "NAPA_VALLEY_NAVAJO_SANDAL": "sandal",
    "Nordic_Ware_Original_Bundt_Pan": "bundt pan",
    "Ocedar_Snap_On_Dust_Pan_And_Brush_1_ct": "dustpan",
    "Pony_C_Clamp_1440": "clamp",
    "Rayna_BootieWP": "ankle boot",
    "Razer_Kraken_Pro_headset_Full_size_Black": "headset",
    "Razer_Naga_MMO_Gaming_Mouse": "computer mouse",
    "Schleich_Lion_Action_Figure": "lion",
    "Threshold_Porcelain_Teapot_White": "teapot",
    "Timberland_Mens_Classic_2Eye_Boat_Shoe": "boat shoe",
    "Tory_Burch_Kiernan_Riding_Boot": "riding boot",
    "TURBOPROP_AIRPLANE_WITH_PILOT": "toy airplane",
    "UGG_Classic_Tall_Womens_Boots_Grey_7": "winter boot",
    "Vtech_Cruise_Learn_Car_25_Years": "toy car",
    "Weisshai_Great_White_Shark": "shark",
}
"""Published name → what the shape is; two scans show something other than their name says (a bowl, an android figure)."""

ATTRIBUTION = """# Attribution

`objects.npz` holds surface points of {count} models of **Google Scanned Objects** by Google LLC, licensed under the Creative
Commons Attribution 4.0 International licence, <https://creativecommons.org/licenses/by/4.0/>. Each model is published under the
name in the table, in <https://app.gazebosim.org/GoogleResearch/fuel/collections/Scanned%20Objects%20by%20Google%20Research>.

L. Downs, A. Francis, N. Koenig, B. Kinman, R. Hickman, K. Reymann, T. B. McHugh, V. Vanhoucke: Google Scanned Objects: A
High-Quality Dataset of 3D Scanned Household Items. ICRA 2022. <https://arxiv.org/abs/2204.11918>

Changes: {points:,} points with normals were sampled on the surface of each mesh, centred, scaled to the unit sphere (the radius
in metres is kept in `radius`) and rounded to {levels:,} steps per axis; textures were left out; the class names are ours. Two
scans do not show what their published name says; their class name is what they show.

| class | published name |
|---|---|
{rows}
"""


def main(folder: Path) -> None:
    """Read the PLY files, quantise, write the file of objects and its attribution."""
    objects = dict(_read(path) for path in folder.glob("*.ply"))
    if set(objects) != set(NAMES):
        sys.exit(f"{folder}: these models are missing or not expected: {', '.join(sorted(set(objects) ^ set(NAMES)))}")
    points, normals, radii = [], [], []
    for published in NAMES:
        xyz, normal = np.hsplit(objects[published], 2)
        points.append(np.rint((normalise(xyz, published) + 1) / 2 * POINT_LEVELS).astype(np.uint16))
        normals.append(np.rint(normal * NORMAL_LEVELS).astype(np.int8))
        radii.append(np.linalg.norm(xyz - xyz.mean(0), axis=1).max())
    FOLDER.mkdir(exist_ok=True)
    names = np.array(list(NAMES.values()))
    np.savez_compressed(OBJECTS, points=points, normals=normals, radius=np.array(radii, np.float32), names=names)
    rows = "\n".join(f"| {name} | {published} |" for published, name in NAMES.items())
    text = ATTRIBUTION.format(count=len(NAMES), points=len(points[0]), levels=POINT_LEVELS + 1, rows=rows)
    (FOLDER / "ATTRIBUTION.md").write_text(text, encoding="utf-8")
    print(f"wrote {OBJECTS} ({OBJECTS.stat().st_size / 1e6:.2f} MB) and its attribution")


def _read(path: Path) -> tuple[str, np.ndarray]:
    """The published name, from "comment NAME, Google Scanned Objects, …", and x, y, z, nx, ny, nz of the points (M, 6)."""
    header, body = path.read_bytes().split(b"end_header\n", 1)
    name = header.split(b"comment ", 1)[1].split(b",", 1)[0].decode()
    return name, np.frombuffer(body, "<f4").reshape(-1, 6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
