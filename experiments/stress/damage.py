"""Damage files at random and load them: each must load, or end in an error that says what is wrong."""

from __future__ import annotations

import io
import json
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from experiments.stress.samples import Sample, samples
from reqnn.errors import ReqnnError

WORDS = [
    b"nan",
    b"inf",
    b"1e400",
    b"-1",
    b"0",
    b"",
    b"99999999999999999999",
    b'"x"',
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"1,5",
]
VALUES = [None, True, -1, 0, 7, 0.5, 64, 10**12, 1e300, "", "table", "x" * 300, [], [1], {}, {"width": 64}]
MOST_MEMORY = 8 * 2**30  # bytes of address space of a process that loads damaged files
SLOW = 900.0  # seconds that a process may take for its files


def damaged(content: bytes, seed: int) -> bytes:
    """A damaged copy of a file, by the seed: truncated, bytes changed, a number or word exchanged, lines lost or repeated."""
    rng, data = random.Random(seed), bytearray(content)
    if b'"__metadata__"' in content[:100] and rng.random() < 0.5:
        return _damaged_record(content, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        how, at = rng.randrange(7), rng.randrange(max(len(data), 1))
        if how == 0:
            del data[at:]
        elif how == 1 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 2 and data:
            data[at] = rng.randrange(256)
        elif how == 3:
            words = list(re.finditer(rb"[\w.+-]+", bytes(data)))
            if words:
                word = rng.choice(words)
                data[word.start() : word.end()] = rng.choice(WORDS)
        elif how == 4:
            digits = [i for i, byte in enumerate(data) if 48 <= byte < 58]
            if digits:
                data[rng.choice(digits)] = rng.choice(b"0123456789")
        elif how == 5:
            lines = bytes(data).split(b"\n")
            line = rng.randrange(len(lines))
            lines[line : line + 1] = rng.choice(([], [lines[line]] * 2, [b"garbage \x00"]))
            data = bytearray(b"\n".join(lines))
        else:
            del data[at : at + rng.randrange(1, 64)]
    return bytes(data)


def _damaged_record(content: bytes, rng: random.Random) -> bytes:
    """A safetensors file with one value of its record exchanged, and nothing else: a wrong step, class or option."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    about = header["__metadata__"]
    about["reqnn" if "reqnn" in about else rng.choice(sorted(about))] = json.dumps(
        _exchanged(json.loads(about["reqnn"]), rng) if "reqnn" in about else rng.choice(VALUES)
    )
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _exchanged(value: Any, rng: random.Random) -> Any:
    """Plain data with one value in it exchanged or lost."""
    if isinstance(value, dict) and value:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: _exchanged(value[name], rng)}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], _exchanged(value[at], rng), *value[at + 1 :]]
    return rng.choice([other for other in VALUES if other != value])


def try_file(sample: Sample, content: bytes, folder: Path, expected: Any = None) -> tuple[str, str]:
    """Load a damaged file: "loaded", "refused", "changed" (accepted with other content) or "traceback", with what was said."""
    path = folder / sample.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            found = sample.load(path)
    except ReqnnError as error:
        named = folder.name in str(error)
        return ("refused", str(error)) if named else ("traceback", f"the message does not name the file: {error}")
    except Exception:
        return "traceback", traceback.format_exc()
    return ("changed", "") if sample.guarded and found != expected else ("loaded", "")


def try_files(kind: str, first: int, count: int) -> dict[str, Any]:
    """Damage and load this many files of a kind, by the seeds from `first`: counts, and the first few failures."""
    sample, outcomes = samples()[kind], Counter[str]()
    failures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="reqnn-damaged-") as folder:
        place = Path(folder)
        path = place / sample.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sample.content)
        expected = sample.load(path)
        for seed in range(first, first + count):
            outcome, said = try_file(sample, damaged(sample.content, seed), place, expected)
            outcomes[outcome] += 1
            if outcome in ("traceback", "changed") and len(failures) < 5:
                failures.append({"kind": kind, "seed": seed, "what": said})
    return {"files": count, **outcomes, "failures": failures}


def damaged_files(count: int, seed: int = 0) -> dict[str, Any]:
    """The same for `count` files, shared by all kinds, each in a process of its own: one that dies is counted as a crash."""
    kinds, fork = list(samples()), multiprocessing.get_context("fork")  # forked, to import torch once
    each, found = -(-count // len(kinds)), Counter[str]()
    by_kind: dict[str, dict[str, Any]] = {}
    failures: list[dict[str, Any]] = []
    for kind in kinds:
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=_send_result, args=(sender, kind, seed, each))
        process.start()
        sender.close()
        try:
            ended = receiver.poll(SLOW)
            result: dict[str, Any] = receiver.recv() if ended else {}
        except EOFError:
            result = {}
        process.kill()
        process.join()
        if not result:
            why = f"the process ended with {process.exitcode}" if ended else f"no end after {SLOW:.0f} s"
            result = {"crash": 1, "failures": [{"kind": kind, "what": why}]}
        failures += result.pop("failures")
        found.update({name: value for name, value in result.items() if name != "memory"})
        by_kind[kind] = result
        print(f"{kind}: {result}", file=sys.stderr, flush=True)
    memory = max(one.get("memory", 0) for one in by_kind.values())
    return {**found, "memory": memory, "seed": seed, "by_kind": by_kind, "failures": failures}


def _send_result(sender: Any, kind: str, seed: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    result = try_files(kind, seed, count)
    sender.send({**result, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
