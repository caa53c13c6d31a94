"""`python -m experiments lost-machine`: clouds on a Ray cluster of two machines, one of which is killed in the middle."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reqnn.commands.base import NOT_OK, OK, Command, console


@dataclass(kw_only=True)
class LostMachine(Command):
    """Count clouds in and out of `reqnn predict --engine ray` if a machine of the cluster is killed while it works.

    One cloud in 50 cannot be read: its row has no points. The exit code is 1 if a cloud is missing or is there twice.

    Examples:
        python -m experiments lost-machine
        python -m experiments lost-machine --clouds 10000
    """

    network: str = "dgcnn.full.scanned"
    """Name of weights, or a run."""
    clouds: int = 1000
    """How many."""
    points: int = 256
    """Points in a cloud."""
    shard: int = 20
    """Clouds per shard."""
    out: Path = Path("results/lost_machine.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Answer, kill, count."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        import reqnn
        from experiments.harness.table import Cell, Table
        from reqnn.deploy.ray_engine import answer_shards
        from reqnn.deploy.shards import Job, find_shards

        net, flat = reqnn.load(self.network), reqnn.data.surfaces(self.clouds, self.points)[0].float().flatten(1).tolist()
        clouds = [[] if row % 50 == 49 else cloud for row, cloud in enumerate(flat)]
        with TemporaryDirectory() as folder, two_machines() as (cluster, machines):
            pq.write_table(pa.table({"points": pa.array(clouds, pa.list_(pa.float32()))}), f"{folder}/clouds.parquet")
            shards, job = find_shards([f"{folder}/clouds.parquet"], self.shard), Job("predict", f"{folder}/out", self.points)
            before, done = 0, []
            for one in answer_shards(job, net, job.begin(shards, self.network), workers=2):
                done.append(one)
                if len(done) == len(shards) // 3:
                    cluster.remove_node(machines[1], allow_graceful=False)
                    before = sum(one.answered + one.failed for one in done)
            found = {kind: pq.read_table(f"{folder}/out/{kind}")["files"].to_pylist() for kind in ("results", "failed")}
        counts = Counter(name for names in found.values() for name in names)
        record = {
            "clouds": self.clouds,
            "done_before_the_kill": before,
            "answered": len(found["results"]),
            "failed": len(found["failed"]),
            "twice": sum(count > 1 for count in counts.values()),
            "missing": len({name for shard in shards for name in shard.names} - set(counts)),
        }
        columns = ["clouds in", "done before the kill", "answered", "failed, without points", "twice", "missing"]
        settings = {"network": self.network, "points": self.points, "clouds per shard": self.shard, "machines": "2, then 1"}
        rows = [[Cell(str(value)) for value in record.values()]]
        table = Table("lost_machine", "Clouds on Ray: a machine is killed", columns, rows, [record], settings)
        table.print(console())
        table.write(self.out.parent)
        return OK if not (record["twice"] or record["missing"]) and record["failed"] == self.clouds // 50 else NOT_OK


@contextmanager
def two_machines() -> Iterator[tuple[Any, list[Any]]]:
    """A local Ray cluster, connected: a head without CPUs, and two machines with one each. A lost one is noticed in seconds."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    import ray
    from ray.cluster_utils import Cluster

    watch = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8, "_system_config": watch}
    )
    machines = [cluster.add_node(num_cpus=1, object_store_memory=10**8) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    try:
        yield cluster, machines
    finally:
        ray.shutdown()
        cluster.shutdown()
