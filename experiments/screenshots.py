"""`python -m experiments screenshots`: the pictures of the page of `reqnn view` in the docs, by a headless Chromium."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reqnn.commands.base import OK, Command
from reqnn.errors import InputError

SOFTWARE_GL = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")


@dataclass(kw_only=True)
class Screenshots(Command):
    """Open the page in a headless Chromium, upright and rotated by the sliders, and save what it shows.

    Examples:
        python -m experiments screenshots
        python -m experiments screenshots --object lion --angles 90 40 0 --out .
    """

    object: str = "teapot"
    """A scanned object."""
    angles: tuple[int, int, int] = (-53, -18, 34)
    """Degrees about x, y and z."""
    out: Path = Path("docs/pictures")
    """The folder for view_upright.png and view_rotated.png."""

    def run(self) -> int:
        """Serve, open, rotate, save."""
        from playwright.sync_api import sync_playwright

        from reqnn.commands.view import NETWORKS
        from reqnn.view.comparison import Comparison
        from reqnn.view.page import Page

        with sync_playwright() as driver:
            tab = open_browser(driver).new_page(viewport={"width": 1100, "height": 640})
            tab.set_default_timeout(300_000)
            page = Page(Comparison(NETWORKS), {}, "127.0.0.1", 8480)
            page.object.value = self.object
            tab.goto(page.url())
            tab.get_by_text(f"{self.object}, ").first.wait_for()
            tab.locator(".mantine-Notification-closeButton").click()  # "software rendering": true of this browser only
            for name, angles in (("upright", (0, 0, 0)), ("rotated", self.angles)):
                for place, angle in enumerate(angles):
                    box = tab.get_by_role("textbox").nth(place)
                    box.fill(str(angle))
                    box.press("Enter")
                tab.wait_for_timeout(20_000)  # until the answers are there and the picture is drawn
                tab.screenshot(path=self.out / f"view_{name}.png")
                print(self.out / f"view_{name}.png", flush=True)
            page.stop()
        return OK


def open_browser(driver: Any) -> Any:
    """Headless Chromium of the system, without a GPU."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise InputError("no Chromium is installed: make browser")
    return driver.chromium.launch(executable_path=path, args=list(SOFTWARE_GL))
