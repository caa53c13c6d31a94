"""A lock on a training run: among processes and machines that share a folder, one trains it and the others leave it.

The lock is a file that only one can create; it names its holder, who touches it while he lives. One whose process is gone or,
on another machine, that is not touched any more, is taken over.
"""

from __future__ import annotations

import _thread
import json
import os
import platform
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from reqnn.errors import InputError, Stopped

BEAT, STALE = 20.0, 300.0
"""Seconds between two touches, and after how many without one a lock is taken over."""

SAME_START = 5.0  # seconds: the system's idea of when a process was started moves with its clock


class RunLock:
    """One process's hold on a run, or its wish for it.

    Attributes:
        lost: another process took the lock over, which it does where this one seemed dead; the main thread is interrupted
            by `Stopped`.
    """

    def __init__(self, path: Path, beat: float = BEAT, stale: float = STALE) -> None:
        self.path, self.beat, self.stale = path, beat, stale
        self.lost = False
        self._token = uuid.uuid4().hex
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: Any = None  # what an interrupt did before

    def acquire(self) -> bool:
        """Take the lock where it is free or abandoned; whether it is ours now."""
        self._stop.clear()  # of an earlier hold, or an earlier try
        for _ in range(5):  # again where a lock went away, or was taken over by another, while we looked
            if self._create():
                self._heed_interrupts()
                self._thread = threading.Thread(target=self._live, daemon=True)
                self._thread.start()
                return True
            holder = self.holder()
            if holder is None:
                continue
            if not self._abandoned(holder):
                return False
            self._remove(holder)
        return False

    def release(self) -> None:
        """Give the lock back, where it is still ours."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self._ours():
            self.path.unlink(missing_ok=True)

    def owned(self) -> bool:
        """Whether the lock is still ours, looked up now and not at the last touch."""
        self.lost = self.lost or not self._ours()
        return not self.lost

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Try to take the lock, and give it back at the end."""
        try:
            yield self.acquire()
        finally:
            self.release()

    def holder(self) -> dict[str, Any] | None:
        """Who holds the lock: host, pid, seconds since he last touched it; None where nobody does."""
        try:
            text = self.path.read_text(encoding="utf-8")
            age = self._now() - self.path.stat().st_mtime
        except FileNotFoundError:
            return None
        try:
            about = json.loads(text)
        except ValueError:  # just created, not yet written: only its age can tell
            about = {}
        return {"host": "?", "pid": 0, "token": "", "place": None, "begun": None, **about, "age": age}

    def _create(self) -> bool:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError as error:
            if isinstance(error, FileExistsError) and folder.is_dir():
                return False
            raise InputError(f"{self.path} cannot be written ({error.strerror}); name another folder with --runs") from error
        pid = os.getpid()
        about = {"host": platform.node(), "pid": pid, "token": self._token, "place": _place(), "begun": _begun(pid)}
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(about, file)
        return True

    def _abandoned(self, holder: dict[str, Any]) -> bool:
        """Whether its process is gone; on another machine, whether it has not been touched for long."""
        if holder["place"] is None or holder["place"] != _place():
            return bool(holder["age"] > self.stale)
        begun = _begun(holder["pid"])  # a process that is only halted lives on, however long
        return begun is None or abs(begun - holder["begun"]) > SAME_START

    def _remove(self, holder: dict[str, Any]) -> None:
        """Remove an abandoned lock, one process at a time: a slower one finds that another lock is there and leaves it."""
        gate = self.path.with_name(f"{self.path.name}.removing")
        try:
            os.close(os.open(gate, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            with suppress(FileNotFoundError):
                if self._now() - gate.stat().st_mtime > self.stale:  # its process died in the act
                    gate.unlink()
            return
        try:
            now = self.holder()
            if now is not None and now["token"] == holder["token"] and self._abandoned(now):
                self.path.unlink(missing_ok=True)
        finally:
            gate.unlink(missing_ok=True)

    def _heed_interrupts(self) -> None:
        """Our own interrupts raise `Stopped`; those of others do what they did, nothing in a shell's background jobs."""
        before = signal.getsignal(signal.SIGINT)
        ordinary = before is signal.SIG_IGN or before is signal.default_int_handler
        if ordinary and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self.lost:
            raise Stopped("another process has taken the run over")
        if self._before is signal.default_int_handler:
            signal.default_int_handler(number, frame)

    def _live(self) -> None:
        while not self._stop.wait(self.beat):
            if not self._ours():
                self.lost = True
                _thread.interrupt_main()
                return
            try:
                os.utime(self.path)
            except OSError:
                continue  # a network folder that is away for a moment

    def _ours(self) -> bool:
        try:
            return self._token in self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        except OSError:
            return not self.lost  # it cannot be told now; the next beat will

    def _now(self) -> float:
        """The time of the machine that holds the folder, so that clocks need not agree."""
        probe = self.path.with_name(f".{self.path.name}.{self._token}.now")
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink()


def _place() -> str | None:
    """Where a process id means something: this boot of this machine, and its container; None where that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _begun(pid: int) -> float | None:
    """When a process of this machine was started; None where there is none: ids are used again."""
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None
