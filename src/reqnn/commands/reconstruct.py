"""`reqnn reconstruct`: an object turned by turning its features inside a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command, console, make_folder, optional, show_written, write_json
from reqnn.errors import InputError
from reqnn.extras import need

if TYPE_CHECKING:
    from torch import Tensor

    from reqnn.revision.module import RevisedModel

LAYERS = {"autoencoder": "latent", "pointnet_reconstruction": "conv5"}
"""Network → where its features are turned."""


@dataclass(kw_only=True)
class Reconstruct(Command):
    """Encode an object, turn the features instead of the object, decode: a turned object, as PLY and as a picture.

    RUN is a REQNN that `reqnn train --task reconstruction --equivariant` wrote; FILE a mesh or a cloud. Features are those of
    the latent of an autoencoder, or of the 1024-wide layer of PointNet, or of any layer (--at). For comparison the object
    itself is turned and given to the network, and the largest difference between the two results is printed.

    Examples:
        reqnn reconstruct runs/autoencoder chair.off --axis 0 1 0 --angle 90
        reqnn reconstruct runs/autoencoder chair.ply --axis 0.46 0.68 0.56 --angle 60 --at encoder --out chair
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(name="RUN", metavar="RUN")]
    """The folder of a run, or a weights file."""

    file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(name="FILE", metavar="FILE")]
    """A mesh (OFF, OBJ, PLY, STL, GLB) or a cloud (PLY, XYZ, TXT, PTS, CSV, NPY, NPZ)."""

    axis: tuple[float, float, float] = (0.0, 1.0, 0.0)
    """The axis to turn about."""

    angle: float = 60.0
    """By how many degrees."""

    at: Annotated[str | None, optional("LAYER")] = None
    """The submodule whose features are turned. Default: latent of an autoencoder, conv5 of pointnet_reconstruction."""

    seed: int = 0
    """Of the choice of points."""

    up: Literal["x", "y", "z"] = "y"
    """The vertical axis of the file, for the picture; to the network it makes no difference."""

    out: str = "reconstruction"
    """The folder for input.ply, reconstructed.ply, turned.ply, the picture and the numbers."""

    def run(self) -> int:
        """Read, encode, turn, decode, write."""
        from reqnn.data import read_cloud
        from reqnn.train.cloud_pictures import BLUE, camera, draw_grid

        net, layer, count = self._load()
        rotation = self._rotation()
        raw = read_cloud(self.file, count, self.seed, normalize=False, short="repeat").double()
        centre = raw.mean(0)
        size = (raw - centre).norm(dim=-1).max().clamp(min=1e-12)
        cloud = (raw - centre) / size
        made, turned, expected = turn_features(net, layer, cloud, rotation)
        difference = float((turned - expected).norm(dim=-1).max())
        folder = make_folder(self.out)
        clouds = {"input": cloud, "reconstructed": made, "turned": turned}
        paths = [_write_ply(xyz * size + centre, folder / f"{name}.ply") for name, xyz in clouds.items()]
        titles = ["input", "reconstructed", f"features turned\n{self.angle:g}°", f"input turned\ndifference {difference:.0e}"]
        row = [cloud, made, turned, expected]
        paths.append(draw_grid([row], folder / "turned.png", titles=titles, colours=[BLUE], view=camera(self.up), size=7.0))
        record = {"file": self.file, "run": self.model, "layer": layer, "axis": self.axis, "angle": self.angle}
        write_json({**record, "difference": difference, "points": len(cloud)}, str(folder / "turned.json"))
        screen = console()
        screen.print(
            f"features of {layer} turned and decoded; with the input turned instead, points differ by {difference:.1e}"
        )
        show_written([*paths, folder / "turned.json"])
        return OK

    def _load(self) -> tuple[RevisedModel, str, int]:
        """The network in float64, the layer, and how many points it was trained on."""
        from reqnn.revision.module import RevisedModel
        from reqnn.train.reconstruction import in_double
        from reqnn.train.run import load_run

        run = load_run(self.model)
        if run.config.task != "reconstruction":
            raise InputError(f"{self.model} was trained for {run.config.task}; train with --task reconstruction --equivariant")
        net = in_double(run.model.cpu())
        if not isinstance(net, RevisedModel):
            raise InputError(f"{self.model} is no REQNN: its features do not turn with the object; train with --equivariant")
        layer = self.at or LAYERS.get(run.config.model)
        if layer is None:
            raise InputError(f"say with --at which submodule of {run.config.model} holds the features to turn")
        return net, layer, run.config.points

    def _rotation(self) -> Tensor:
        import torch

        from reqnn import quaternion

        axis = torch.tensor(self.axis, dtype=torch.float64)
        if not bool(axis.norm() > 0):
            raise InputError(f"--axis is {self.axis}; it needs a direction")
        angle = torch.tensor(self.angle, dtype=torch.float64).deg2rad()
        return quaternion.to_matrix(quaternion.from_axis_angle(axis / axis.norm(), angle))


def turn_features(net: RevisedModel, layer: str, cloud: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a network makes of a cloud (N, 3), of its turned features, and of the turned cloud."""
    import torch

    from reqnn.revision.features import rotate_features

    with torch.no_grad():
        given = cloud[None]
        features: Any = net.features(given, at=layer)
        turned = net.put_features(rotate_features(features, rotation), given, at=layer)
        return net(given)[0], turned[0], net(given @ rotation.T)[0]


def _write_ply(xyz: Tensor, path: Path) -> Path:
    """Points (N, 3), in the units of the file they come from."""
    need("trimesh").PointCloud(xyz.numpy()).export(path)
    return path
