"""Shards on a Ray cluster: a pool of workers with one network each, which survives the loss of processes and machines."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reqnn.deploy.shards import Job, Shard
from reqnn.errors import ReqnnError
from reqnn.extras import need

TRIES = 3
"""How many workers may die over a shard before its clouds count as failed, and die in a row before the job ends."""


@dataclass(frozen=True)
class Done:
    """A finished shard: clouds answered and failed, CPU time."""

    shard: int
    answered: int
    failed: int
    seconds: float


class Worker:
    """A process with a network; made an actor by `answer_shards`."""

    def __init__(self, job: Job, network: Any) -> None:
        import torch

        torch.set_num_threads(max(1, int(need("ray").get_runtime_context().get_assigned_resources().get("CPU", 1))))
        self.job, self.network = job, network

    def ready(self) -> None:
        """The network is loaded."""

    def work(self, shard: Shard) -> Done:
        """Read, answer, write."""
        start = time.process_time()
        answered, failed = self.job.work(self.network, shard)
        return Done(shard.number, answered, failed, time.process_time() - start)


def answer_shards(
    job: Job, network: Any, shards: Sequence[Shard], address: str | None = None, workers: int | None = None
) -> Iterator[Done]:
    """Answer shards in any order, each by one worker; a shard whose worker dies goes back to the queue.

    Args:
        job: what to do.
        network: sent to each worker once.
        shards: those to do.
        address: of a cluster ("auto", "host:6379", "ray://host:10001"); default: a local one is started.
        workers: default: one per CPU of the cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = need("ray")
    own = not ray.is_initialized()
    if own:
        local = {} if address else {"include_dashboard": False, "num_cpus": workers}
        ray.init(address=address, log_to_driver=False, logging_level="error", **local)
    try:
        count = workers or int(ray.cluster_resources().get("CPU", 1))
        yield from _pool(ray, job, ray.put(network), deque(shards), count)
    finally:
        if own:
            ray.shutdown()


def _pool(ray: Any, job: Job, network: Any, queue: deque[Shard], workers: int) -> Iterator[Done]:
    kind = ray.remote(num_cpus=1)(Worker)
    working: dict[Any, tuple[Any, Shard | None]] = {}
    deaths: Counter[int] = Counter()
    in_a_row = 0

    def start() -> None:
        actor = kind.remote(job, network)  # waits, without harm, until the cluster has room
        working[actor.ready.remote()] = actor, None

    for _ in range(min(workers, len(queue))):
        start()
    while queue or any(shard is not None for _, shard in working.values()):
        reference = ray.wait(list(working))[0][0]
        actor, shard = working.pop(reference)
        try:
            done = ray.get(reference)
        except ray.exceptions.RayActorError as error:  # its process or machine is gone
            in_a_row += 1
            if in_a_row > TRIES * workers:
                raise ReqnnError(f"workers die again and again, {in_a_row} in a row ({error})") from error
            start()
            if shard is not None and deaths[shard.number] + 1 < TRIES:
                deaths[shard.number] += 1
                queue.append(shard)
            elif shard is not None:
                reason = f"{TRIES} workers died over its shard, perhaps for lack of memory: try a smaller --shard"
                yield Done(shard.number, *job.write(shard, {}, dict.fromkeys(range(len(shard.names)), reason)), 0.0)
            continue
        if shard is not None:
            in_a_row = 0
            yield done
        if queue:
            shard = queue.popleft()
            working[actor.work.remote(shard)] = actor, shard
    for actor, _ in working.values():
        ray.kill(actor)
