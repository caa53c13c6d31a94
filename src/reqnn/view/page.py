"""The page in the browser: a thin layer of viser over `Shown` and `Comparison`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reqnn.errors import InputError
from reqnn.extras import need
from reqnn.quaternion import random_rotation
from reqnn.view.comparison import Answer, Comparison
from reqnn.view.shown import Shown, read_file, read_upload, scanned_object, scanned_objects

DROPPED = 0.3
GREEN, RED, GREY, BLUE, ORANGE = "#1a7f37", "#c62828", "#6b7280", (42, 111, 176), (214, 84, 0)
LIGHT = np.array([-0.5, -0.5, 0.7])


class Page:
    """A server of one page; all who open it see the same object. Predictions run in one thread, for the latest state only."""

    def __init__(self, comparison: Comparison, files: Mapping[str, Path], host: str, port: int) -> None:
        viser = need("viser")
        self.rotations = need("viser.transforms").SO3
        self.comparison, self.files = comparison, dict(files)
        self.changed, self.stopped = threading.Event(), False
        first = next(iter(files), "teapot")
        self.shown = self._open(first)
        self.server = server = viser.ViserServer(host=host, port=port, label="reqnn view", verbose=False)
        server.gui.configure_theme(control_width="large", show_logo=False, show_share_button=False, brand_color=BLUE)
        server.gui.main_panel.dock_right()
        server.scene.configure_environment_map(None)  # its picture would come from another host
        server.scene.configure_default_lights(cast_shadow=False)  # as fast as can be without a GPU
        server.scene.add_light_ambient("/light", intensity=0.8)
        server.initial_camera.position, server.initial_camera.look_at = (-1.6, -1.1, 0.8), (0.0, 0.0, 0.0)
        self.gizmo = server.scene.add_transform_controls(
            "/object", scale=1.15, disable_axes=True, disable_sliders=True, line_width=4.0, depth_test=False, opacity=0.7
        )
        self.gizmo.on_update(lambda _: self._rotate(self.gizmo.wxyz))
        self._controls(server.gui, first)
        self.worker = threading.Thread(target=self._follow, daemon=True)
        self.worker.start()
        self._draw_cloud()

    def _controls(self, gui: Any, first: str) -> None:
        self.bars = gui.add_html("")
        self.object = gui.add_dropdown("object", (*self.files, *scanned_objects().names), initial_value=first)
        self.object.on_update(lambda _: self._show(lambda: self._open(self.object.value)))
        upload = gui.add_upload_button("open a file", hint="a mesh or a cloud: OFF, OBJ, PLY, STL, GLB, XYZ, CSV, NPY, …")
        points = self.comparison.points
        upload.on_upload(lambda _: self._show(lambda: read_upload(upload.value.name, upload.value.content, points)))
        self.angles = [gui.add_slider(f"rotate {axis}", -180, 180, 1, 0) for axis in "xyz"]
        for slider in self.angles:
            slider.on_update(self._slide)
        orientation = gui.add_button_group("orientation", ("random", "upright"))
        made = {"random": lambda: random_rotation(dtype=torch.float64).numpy(), "upright": lambda: np.array([1.0, 0, 0, 0])}
        orientation.on_click(lambda _: self._rotate(made[orientation.value]()))
        change = gui.add_button_group("points", ("shuffle points", "drop 30 % of points", "all points"))
        actions = {"shuffle points": Shown.shuffled, "drop 30 % of points": lambda one: one.without(DROPPED)}
        change.on_click(lambda _: self._show(lambda: actions.get(change.value, Shown.whole)(self.shown)))
        self.layers = self.comparison.layers(self.shown)
        if self.layers:
            self.arrows = gui.add_checkbox("feature", initial_value=True)
            self.layer = gui.add_dropdown("layer", tuple(self.layers))
            self.channel = gui.add_slider("channel", 1, 16, 1, 1)
            for control in (self.arrows, self.layer, self.channel):
                control.on_update(lambda _: self.changed.set())
        self.note, self.error = gui.add_html(""), gui.add_html("")  # two: the thread of predictions writes the note

    def _open(self, name: str) -> Shown:
        points = self.comparison.points
        return read_file(self.files[name], points) if name in self.files else scanned_object(name, points)

    def _show(self, make: Callable[[], Shown]) -> None:
        """Show what `make` gives, in the present orientation; if it cannot be read, say so."""
        try:
            self.shown = make().rotated(self.shown.rotation)
        except InputError as error:
            self.error.content = _paragraph(str(error), RED)
            return
        self.error.content = ""
        self._draw_cloud()

    def _slide(self, event: Any) -> None:
        if event.client is not None:  # moved by a person, not by `_rotate`
            angles = (np.radians(slider.value) for slider in self.angles)
            self._rotate(self.rotations.from_rpy_radians(*angles).wxyz, angles=False)

    def _rotate(self, wxyz: np.ndarray, angles: bool = True) -> None:
        """Rotate the object; gizmo and sliders follow each other."""
        rotation = self.rotations(np.asarray(wxyz, dtype=np.float64)).normalize()
        self.shown = self.shown.rotated(torch.from_numpy(rotation.as_matrix()))
        if not np.allclose(self.gizmo.wxyz, rotation.wxyz):
            self.gizmo.wxyz = rotation.wxyz
        if angles:
            for slider, angle in zip(self.angles, rotation.as_rpy_radians(), strict=True):
                slider.value = int(np.degrees(angle).round())
        self.changed.set()

    def _draw_cloud(self) -> None:
        """The points that networks are given, and the surface that they are from; both rotate with the gizmo."""
        shown, scene = self.shown, self.server.scene
        scene.add_point_cloud("/object/points", shown.points[shown.order].numpy(), BLUE, point_size=0.03, point_shape="circle")
        surface = shown.points[:0] if shown.surface is None else shown.surface
        style = {"point_size": 0.036, "point_shape": "circle", "point_shading": "flat"}
        self.surface = scene.add_point_cloud("/object/surface", surface.numpy(), _lit(shown), **style)
        self.changed.set()

    def _follow(self) -> None:
        """Answer for the latest state, again and again; states in between are left out, so that dragging stays fluid."""
        while self.changed.wait() and not self.stopped:
            self.changed.clear()
            shown = self.shown
            try:
                self.bars.content = bars(shown, self.comparison.answers(shown))
                if shown.points is self.shown.points:
                    self.surface.colors = _lit(shown)
                if self.layers:
                    self._draw_arrows(shown)
            except Exception as error:  # of a network: the page stays, for another object
                self.error.content = _paragraph(f"{type(error).__name__}: {error}", RED)

    def _draw_arrows(self, shown: Shown) -> None:
        try:
            arrows = self.comparison.arrows(shown, self.layers[self.layer.value], self.channel.value - 1)
        except InputError:  # too few points; the bars say so
            return
        self.channel.max = arrows.channels
        style = {"shaft_radius": 0.004, "head_radius": 0.012, "head_length": 0.03, "visible": self.arrows.value}
        self.server.scene.add_arrows("/object/feature", arrows.segments.numpy(), ORANGE, **style)
        text = "Arrows: one channel of the REQNN's features, computed anew from the rotated points. They differ from those of"
        self.note.content = _paragraph(f"{text} the upright object, rotated, by {arrows.deviation:.1g} of their length.")

    def url(self) -> str:
        """Where the page is."""
        host = self.server.get_host()
        return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self.server.get_port()}"

    def stop(self) -> None:
        """End the server and the thread of predictions."""
        self.stopped = True
        self.changed.set()
        self.worker.join()
        self.server.stop()


def _lit(shown: Shown) -> np.ndarray:
    """Colours of the surface, lit from a side that stays where it is when the object rotates."""
    normals = (shown.points[:0] if shown.normals is None else shown.normals).double() @ shown.rotation.T
    light = 0.46 + 0.38 * (normals.numpy() @ LIGHT)[:, None]
    return (255 * light * np.array([0.93, 0.97, 1.05])).clip(0, 255).astype(np.uint8)


def bars(shown: Shown, answers: list[Answer]) -> str:
    """The answers side by side."""
    what = f"{shown.name}, {len(shown.order)} points"
    columns = "".join(f'<div style="flex:1 1 9em;min-width:0">{_column(answer)}</div>' for answer in answers)
    style = "display:flex;flex-wrap:wrap;gap:1em;padding:0 1em 0.8em;font-size:0.85em"
    return f'{_paragraph(what)}<div style="{style}">{columns}</div>'


def _column(answer: Answer) -> str:
    head = f'<b>{escape(answer.network)}</b><div style="color:{GREY};font-size:0.8em">{escape(answer.source)}</div>'
    if answer.error:
        return head + _paragraph(answer.error, RED)
    good = answer.kept if answer.right is None else answer.right
    colour = GREEN if good else RED
    verdict = ("right" if answer.right else "wrong") + ", " if answer.right is not None else ""
    rows = f'<div style="color:{colour}">{"✓" if good else "✗"} {verdict}{"same as" if answer.kept else "not as"} upright</div>'
    for place, (name, share) in enumerate(answer.top):
        number = f'<span style="color:{GREY}">{100 * share:.1f} %</span>'
        filled = f"height:100%;width:{100 * share:.1f}%;background:{colour if place == 0 else '#9aa3af'}"
        rows += f'<div style="white-space:nowrap;overflow:hidden">{escape(name)} {number}</div>'
        rows += f'<div style="height:0.5em;background:#8883;margin-bottom:0.3em"><div style="{filled}"></div></div>'
    return head + rows + f'<div style="color:{GREY};font-size:0.8em">largest change of a probability: {answer.change:.2g}</div>'


def _paragraph(text: str, colour: str = GREY) -> str:
    return f'<div style="padding:0.4em 1em;font-size:0.8em;color:{colour}">{escape(text)}</div>'
