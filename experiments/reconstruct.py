"""`python -m experiments reconstruct`: rotate an object by rotating its features inside a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command, make_folder, optional, show_written, write_json
from reqnn.errors import InputError
from reqnn.extras import need

if TYPE_CHECKING:
    from reqnn.revision.module import RevisedModel

LAYERS = {"autoencoder": "latent", "pointnet_reconstruction": "conv5"}
"""Network → the layer whose features are rotated."""


@dataclass(kw_only=True)
class Reconstruct(Command):
    """Encode an object, rotate the features instead of the object, decode: a rotated object, as PLY and as a picture.

    RUN is a REQNN trained with --task reconstruction --equivariant; FILE a mesh or a cloud. The features are the
    latent of an autoencoder, the 1024-wide layer of PointNet, or those of any layer (--at). For comparison the object itself
    is rotated and passed to the network, and the largest difference between the two results is printed.

    Examples:
        python -m experiments reconstruct runs/autoencoder chair.off --axis 0 1 0 --angle 90
        python -m experiments reconstruct runs/autoencoder chair.ply --axis 0.46 0.68 0.56 --angle 60 --at encoder --out chair
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(name="RUN", metavar="RUN")]
    """The folder of a run, or a weights file."""
    file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(name="FILE", metavar="FILE")]
    """A mesh (OFF, OBJ, PLY, STL, GLB) or a cloud (PLY, XYZ, TXT, PTS, CSV, NPY, NPZ)."""
    axis: tuple[float, float, float] = (0.0, 1.0, 0.0)
    """The rotation axis."""
    angle: float = 60.0
    """The rotation angle in degrees."""
    at: Annotated[str | None, optional("LAYER")] = None
    """The submodule whose features are rotated. Default: latent of an autoencoder, conv5 of pointnet_reconstruction."""
    seed: int = 0
    """Seed of the choice of points."""
    up: Literal["x", "y", "z"] = "y"
    """The vertical axis of the file, for the picture only."""
    out: str = "reconstruction"
    """Folder for input.ply, reconstructed.ply, rotated.ply, the picture and the numbers."""

    def run(self) -> int:
        """Read, encode, rotate, decode, write."""
        import torch

        from experiments.pictures.clouds import BLUE, camera, draw_grid
        from reqnn import quaternion
        from reqnn.data import read_cloud
        from reqnn.revision.features import rotate_features

        net, layer, count = self._load()
        axis = torch.tensor(self.axis, dtype=torch.float64)
        if not bool(axis.norm() > 0):
            raise InputError(f"--axis is {self.axis}; it needs a direction")
        angle = torch.tensor(self.angle, dtype=torch.float64).deg2rad()
        rotation = quaternion.to_matrix(quaternion.from_axis_angle(axis, angle))
        raw = read_cloud(self.file, count, self.seed, normalize=False, short="repeat").double()
        centre = raw.mean(0)
        size = (raw - centre).norm(dim=-1).max().clamp(min=1e-12)
        cloud = (raw - centre) / size
        with torch.no_grad():
            features: Any = net.features(cloud[None], at=layer)
            rotated = net.put_features(rotate_features(features, rotation), cloud[None], at=layer)[0]
            made, expected = net(cloud[None])[0], net(cloud[None] @ rotation.T)[0]
        difference = float((rotated - expected).norm(dim=-1).max())
        folder, trimesh = make_folder(self.out), need("trimesh")
        clouds = {"input.ply": cloud, "reconstructed.ply": made, "rotated.ply": rotated}
        for name, xyz in clouds.items():
            trimesh.PointCloud((xyz * size + centre).numpy()).export(folder / name)  # in the units of the file
        titles = ["input", "reconstructed", f"features rotated\n{self.angle:g}°", f"input rotated\ndifference {difference:.0e}"]
        row, view = [cloud, made, rotated, expected], camera(self.up)
        draw_grid([row], folder / "rotated.png", titles=titles, colours=[BLUE], view=view, size=7.0)
        record = {"file": self.file, "run": self.model, "layer": layer, "axis": self.axis, "angle": self.angle}
        write_json({**record, "difference": difference, "points": len(cloud)}, folder / "rotated.json")
        print(f"features of {layer} rotated and decoded; rotating the input instead moves points by {difference:.1e}")
        show_written(folder / name for name in (*clouds, "rotated.png", "rotated.json"))
        return OK

    def _load(self) -> tuple[RevisedModel, str, int]:
        """The network in float64, the layer, and how many points it was trained on."""
        from experiments.zoo import register_networks
        from reqnn.revision.module import RevisedModel
        from reqnn.train.evaluation import in_double
        from reqnn.train.run import load_run

        register_networks()
        run = load_run(self.model)
        if run.config.task != "reconstruction":
            raise InputError(f"{self.model} was trained for {run.config.task}; train with --task reconstruction --equivariant")
        net = in_double(run.model.cpu())
        if not isinstance(net, RevisedModel):
            raise InputError(f"{self.model} is no REQNN: its features do not rotate with the object; train with --equivariant")
        layer = self.at or LAYERS.get(run.config.model)
        if layer is None:
            raise InputError(f"name the submodule of {run.config.model} whose features to rotate with --at")
        return net, layer, run.config.points
