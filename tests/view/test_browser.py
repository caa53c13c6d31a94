"""The page in a real browser: headless Chromium, driven by playwright."""

import re
import shutil
import sys

import pytest

pytest.importorskip("viser", reason="the page needs viser: pip install 'reqnn[view]'")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright: pip install playwright")

from reqnn.cli import main  # noqa: E402
from reqnn.commands.view import NETWORKS  # noqa: E402
from reqnn.view.comparison import Comparison  # noqa: E402
from reqnn.view.page import Page  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
SECONDS = 60_000


@pytest.fixture(scope="module")
def page():
    page = Page(Comparison(NETWORKS), {}, "127.0.0.1", 8470)
    yield page
    page.stop()


@pytest.fixture(scope="module")
def tab(page):
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: make browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE_GL)
        tab = browser.new_page(viewport={"width": 640, "height": 700})
        tab.set_default_timeout(SECONDS)
        tab.hosts = set()
        tab.on("request", lambda request: tab.hosts.add(re.match(r"(blob:|data:)|\w+://[^/]*", request.url)[0]))
        tab.goto(page.url())
        tab.get_by_text("REQNN of dgcnn").wait_for()
        yield tab
        browser.close()


def texts(tab):
    """What stands in the columns of the two networks."""
    ordinary, revised = tab.get_by_text("ordinary dgcnn"), tab.get_by_text("REQNN of dgcnn")
    return [one.locator("xpath=..").inner_text() for one in (ordinary, revised)]


def settled(tab, pattern):
    """The columns, as soon as the ordinary network's matches a pattern."""
    tab.get_by_text(re.compile(pattern)).first.wait_for()
    return texts(tab)


def test_rotate_shuffle_drop_and_open(tab, page, tmp_path):
    """One story, in the order in which a person clicks: loading the page takes longer than all of it."""
    ordinary, revised = settled(tab, "right, same as upright")
    assert "teapot 99" in ordinary
    assert re.search(r"✓ right, same as upright\s+teapot 98", revised)

    angle = tab.get_by_role("textbox").nth(0)
    angle.fill("115")
    angle.press("Enter")
    ordinary, revised = settled(tab, "wrong, not as upright")
    assert "teapot" not in ordinary.splitlines()[3]
    assert re.search(r"✓ right, same as upright\s+teapot 98", revised)
    assert abs(page.gizmo.wxyz[1]) == pytest.approx(0.843, abs=1e-3)  # sin(115°/2): the gizmo follows the slider

    tab.get_by_role("button", name="upright").click()
    tab.get_by_text("wrong, not as upright").wait_for(state="hidden")
    tab.mouse.move(107, 303)  # the blue arc of the gizmo: about z
    tab.mouse.down()
    tab.mouse.move(202, 330, steps=5)
    tab.mouse.up()
    ordinary, revised = settled(tab, "wrong, not as upright")
    assert abs(page.gizmo.wxyz[3]) > 0.1
    assert page.gizmo.wxyz[1:3] == pytest.approx([0, 0], abs=1e-6)
    assert page.angles[2].value != 0  # the slider follows the gizmo
    assert re.search(r"✓ right, same as upright\s+teapot 98", revised)

    tab.get_by_role("button", name="shuffle points").click()
    tab.get_by_role("button", name="drop 30 % of points").click()
    tab.get_by_text("teapot, 358 points").wait_for()
    _, revised = texts(tab)
    assert re.search(r"✓ right, same as upright\s+teapot", revised)

    page.changed.set()  # an answer is under way while the file is refused: it must not erase the message
    (tmp_path / "mine.xyz").write_text("1 2 3\n4 five 6")
    tab.locator("input[type=file]").set_input_files(tmp_path / "mine.xyz")
    tab.get_by_text("mine.xyz cannot be read as .xyz").wait_for()
    text = "\n".join(" ".join(map(str, row)) for row in page.shown.points.tolist())
    (tmp_path / "repaired.xyz").write_text(text)
    tab.locator("input[type=file]").set_input_files(tmp_path / "repaired.xyz")
    tab.get_by_text("repaired.xyz, 512 points").wait_for()
    _, revised = texts(tab)
    assert re.search(r"✓ same as upright\s+teapot", revised)
    assert tab.hosts <= {page.url(), "blob:", "data:"}  # nothing is loaded from other hosts


def test_only_the_latest_state_is_answered(page, monkeypatch):
    """A drag sends many rotations; those in between are not computed."""
    seen, answers = [], page.comparison.answers
    monkeypatch.setattr(page.comparison, "answers", lambda shown: seen.append(shown) or answers(shown))
    for angle in range(50):
        page._rotate(page.rotations.from_x_radians(0.01 * angle).wxyz)
    last = page.shown
    for _ in range(600):
        if seen and seen[-1] is last and not page.changed.is_set():
            break
        page.worker.join(0.05)
    assert seen[-1] is last
    assert len(seen) < 40


def test_the_command_serves_until_it_is_interrupted(monkeypatch, capsys):
    made = []

    class Fake:
        def __init__(self, comparison, files, host, port):
            made.append((list(comparison.networks), dict(files), host, port))

        worker = property(lambda self: self)
        url = stop = lambda self: "http://here"

        def join(self):
            raise KeyboardInterrupt

    monkeypatch.setattr("reqnn.view.page.Page", Fake)
    assert main(["view", "--port", "8471"]) == 0
    assert made == [(list(NETWORKS), {}, "127.0.0.1", 8471)]
    assert "http://here" in capsys.readouterr().out


def test_what_cannot_be_shown_is_said_before_the_page_is_served(capsys):
    assert main(["view", "missing.ply"]) == 2
    assert "missing.ply" in capsys.readouterr().err
    assert main(["view", "dgcn.full.scanned"]) == 2
    assert "did you mean dgcnn.full.scanned" in capsys.readouterr().err


def test_the_command_needs_its_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "viser", None)
    assert main(["view"]) == 2
    assert "pip install 'reqnn[view]'" in capsys.readouterr().err
