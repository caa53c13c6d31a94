"""Run an exported file without this package: ``python export_alone.py FILE POINTS.npy OUT.npy [BLOCKED,…]``.

For an interpreter that has numpy and the runtime of the file, torch (pt2) or onnxruntime (ONNX), and no more. Packages that are
named as blocked cannot be imported: for an interpreter that has them. Writes what the file gives, prints its metadata.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec

import numpy as np


def main(path: str, points: str, out: str, blocked: str = "") -> None:
    """Load, run, write."""
    find, names = PathFinder.find_spec, blocked.split(",")
    PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in names else find(name, *more)  # type: ignore[method-assign]
    absent = ("reqnn",) if path.endswith(".pt2") else ("reqnn", "torch")
    present = [name for name in absent if find_spec(name)]
    if present:
        raise SystemExit(f"{', '.join(present)} can be imported: this would prove nothing")
    given = np.load(points)
    if path.endswith(".pt2"):
        import torch

        extra: dict = {"reqnn.json": ""}
        module = torch.export.load(path, extra_files=extra).module()
        found, about = module(torch.from_numpy(given)).detach().numpy(), extra["reqnn.json"]
    else:
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        found = session.run(None, {"points": given})[0]
        about = session.get_modelmeta().custom_metadata_map["reqnn.json"]
    np.save(out, found)
    print(about if isinstance(about, str) else about.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
