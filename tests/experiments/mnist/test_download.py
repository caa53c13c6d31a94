"""Downloads against a server on this machine: whole, wrong, missing, broken off, unreachable."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from experiments.mnist import download
from experiments.mnist.download import fetch
from reqnn.errors import InputError

CONTENT = {"a.gz": b"first " * 5000, "b.gz": b"second"}
HASHES = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Handler(BaseHTTPRequestHandler):
    """/good gives the files, /wrong other bytes, /broken half of what it promises, everything else 404."""

    asked: list[str] = []  # noqa: RUF012

    def do_GET(self):
        type(self).asked.append(self.path)
        _, kind, name = self.path.split("/")
        content = CONTENT.get(name, b"")
        if kind not in ("good", "wrong", "broken") or name not in CONTENT:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        sent = {"good": content, "wrong": content[::-1], "broken": content[: len(content) // 2]}[kind]
        self.wfile.write(sent)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    """The address of a server that lives as long as the test."""
    Handler.asked = []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def get(folder, *mirrors, name="a.gz"):
    return fetch(name, HASHES[name], folder, tuple(f"{mirror}/" for mirror in mirrors))


def test_a_file_comes_whole_and_only_once(server, tmp_path):
    path = get(tmp_path, f"{server}/good")
    assert path.read_bytes() == CONTENT["a.gz"]
    assert get(tmp_path, f"{server}/good") == path
    assert Handler.asked == ["/good/a.gz"]
    path.write_bytes(b"damaged since")
    assert get(tmp_path, f"{server}/good").read_bytes() == CONTENT["a.gz"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("wrong", "the checksum is not .*discarded"),
        ("nowhere", "404: Not Found"),
        ("broken", "the checksum is not .*discarded"),
    ],
)
def test_failures_leave_nothing(server, tmp_path, kind, message):
    with pytest.raises(InputError, match=rf"(?s)a\.gz could not be downloaded:.*{message}"):
        get(tmp_path / "mnist", f"{server}/{kind}")
    assert not list((tmp_path / "mnist").iterdir())


def test_no_connection(server, tmp_path):
    with pytest.raises(InputError, match="refused"):
        get(tmp_path, "http://127.0.0.1:1")
    assert not list(tmp_path.iterdir())


def test_the_next_mirror_is_tried(server, tmp_path):
    assert get(tmp_path, f"{server}/nowhere", f"{server}/wrong", f"{server}/good").read_bytes() == CONTENT["a.gz"]
    assert Handler.asked == ["/nowhere/a.gz", "/wrong/a.gz", "/good/a.gz"]


def test_an_unwritable_folder(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written.*REQNN_DATA"):
        get(tmp_path / "file" / "mnist", f"{server}/good")


def test_all_files(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MIRRORS", (f"{server}/good/",))
    monkeypatch.setattr(download, "FILES", HASHES)
    files = download.download(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in files] == ["mnist/a.gz", "mnist/b.gz"]
    assert all(path.read_bytes() == CONTENT[path.name] for path in files)


def test_the_checksums_are_complete():
    assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in download.MIRRORS)
    assert all(len(checksum) == 64 for checksum in download.FILES.values())
