"""One process a run: locks are exclusive, outlive no process, and are taken over but once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments.harness.run_lock import RunLock
from reqnn.errors import InputError, Stopped


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "cell.lock"


def write(path, **about):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"host": "far", "pid": 1, "token": "old", "place": "elsewhere", "begun": 0.0, **about}))


def test_only_one_holds_it(path):
    one, two = RunLock(path), RunLock(path)
    with one.held() as first:
        assert first
        assert not two.acquire()
        holder = two.holder()
        assert holder["pid"] == os.getpid()
        assert holder["age"] < 5
    assert not path.exists()
    with two.held() as second:
        assert second
    assert list(path.parent.iterdir()) == []


def test_a_lock_of_another_machine_holds_until_it_is_stale(path):
    write(path)
    lock = RunLock(path)
    assert not lock.acquire()
    past = time.time() - 1000
    os.utime(path, (past, past))
    assert lock.acquire()
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()


def test_a_lock_of_a_process_that_is_gone_is_taken_at_once(path):
    code = "import os, sys; from pathlib import Path; from experiments.harness.run_lock import RunLock\n"
    code += "assert RunLock(Path(sys.argv[1])).acquire()\nos._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert path.exists()
    lock = RunLock(path)
    if lock.holder()["place"] is None:
        pytest.skip("this system does not tell where a process id belongs; such a lock goes stale by its age")
    assert lock.acquire()
    lock.release()


def test_a_process_of_this_machine_that_is_only_halted_keeps_it(path):
    lock = RunLock(path)
    with lock.held():
        if lock.holder()["place"] is None:
            pytest.skip("this system does not tell where a process id belongs; such a lock goes stale by its age")
        os.utime(path, (1, 1))
        assert not RunLock(path).acquire()


def test_an_empty_lock_holds_until_it_is_stale(path):
    path.parent.mkdir(parents=True)
    path.touch()
    assert not RunLock(path).acquire()
    os.utime(path, (1, 1))
    lock = RunLock(path)
    assert lock.acquire()
    lock.release()


def test_it_is_touched_while_it_is_held(path):
    lock = RunLock(path, beat=0.02)
    assert lock.acquire()
    os.utime(path, (1, 1))
    deadline = time.monotonic() + 5
    while path.stat().st_mtime == 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.stat().st_mtime > 1
    lock.release()


def _wait(seconds):
    for _ in range(int(100 * seconds)):
        time.sleep(0.01)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_who_loses_it_is_interrupted_and_leaves_the_new_one(path, handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        lock = RunLock(path, beat=0.02)
        assert lock.acquire()
        write(path, token="new")
        with pytest.raises(Stopped):
            _wait(5)
        assert lock.lost
        lock.release()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert json.loads(path.read_text())["token"] == "new"


def test_a_lock_that_changed_hands_is_left(path):
    """Two see the same stale lock; the slower one must not remove what the faster one put in its place."""
    write(path, token="stale")
    slow = RunLock(path)
    seen = slow.holder()
    write(path, token="fresh")
    slow._remove(seen)
    assert json.loads(path.read_text())["token"] == "fresh"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_who_dies_while_he_removes_a_lock_stops_nobody(path):
    write(path)
    gate = path.with_name("cell.lock.removing")
    gate.touch()
    for file in (path, gate):
        os.utime(file, (1, 1))
    lock = RunLock(path)
    assert lock.acquire()
    lock.release()
    assert list(path.parent.iterdir()) == []


def test_of_many_that_want_a_stale_lock_one_gets_it(path):
    write(path)
    os.utime(path, (1, 1))
    locks, got = [RunLock(path) for _ in range(8)], []
    start = threading.Barrier(len(locks))

    def want(lock):
        start.wait()
        if lock.acquire():
            got.append(lock)

    threads = [threading.Thread(target=want, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    got[0].release()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another folder with --runs"):
        RunLock(tmp_path / "file" / "cell.lock").acquire()


def test_a_lock_that_was_first_refused_is_touched_as_any_other(path):
    other, lock = RunLock(path), RunLock(path, beat=0.01)
    assert other.acquire()
    with lock.held() as ours:
        assert not ours
    other.release()
    with lock.held() as ours:
        assert ours
        os.utime(path, (1, 1))
        for _ in range(500):
            if path.stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert path.stat().st_mtime > 1
