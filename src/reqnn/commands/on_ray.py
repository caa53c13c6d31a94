"""The options of commands that also run on a Ray cluster, over millions of clouds."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from reqnn.commands.base import NOT_OK, OK, optional, progress
from reqnn.errors import InputError


@dataclass(kw_only=True)
class OnRay:
    """Mixed into a command."""

    engine: Literal["local", "ray"] = "local"
    """ray: workers with one network each, on this machine or a cluster; FILE may be any fsspec path (s3://…), a pattern, or a
    Parquet or HDF5 file of clouds; --out is a folder of Parquet files, which the same command continues."""
    address: Annotated[str | None, optional("ADDRESS")] = None
    """Of a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Default: one is started here."""
    workers: Annotated[int | None, optional("INT")] = None
    """Workers on Ray. Default: one per CPU."""
    shard: Annotated[int, tyro.conf.arg(metavar="INT")] = 4096
    """Clouds per file of results on Ray."""

    def run_on_ray(
        self, task: str, sources: Sequence[str], out: str | None, network: str, points: int | None, seed: int, top: int = 5
    ) -> int:
        """Answer what has no results yet; print the counts."""
        from reqnn.deploy.ray_engine import answer_shards
        from reqnn.deploy.shards import Job, find_shards
        from reqnn.pretrained import load

        if out is None:
            raise InputError("--engine ray writes a folder of Parquet files: name it with --out FOLDER")
        net = load(network)
        job = Job(task, out.rstrip("/"), points or net.card["points"], seed, top)
        shards = find_shards(sources, self.shard)
        weights = hashlib.sha256(b"".join(x.numpy().tobytes() for x in net.state_dict().values())).hexdigest()
        todo = job.begin(shards, f"{network} {weights}")
        found = answer_shards(job, net, todo, self.address, self.workers) if todo else iter(())
        answered, failed = 0, 0
        for done in progress(found, task, len(todo)):
            answered, failed = answered + done.answered, failed + done.failed
        there = f"; {len(shards) - len(todo)} of {len(shards)} shards were there" if len(todo) < len(shards) else ""
        print(f"{out}: {answered} clouds answered, {failed} failed{there}")
        if failed:
            print(f"error: {failed} clouds failed; why is in {out}/failed", file=sys.stderr)
        return NOT_OK if failed else OK
