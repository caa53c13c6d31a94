"""`python -m experiments throughput`: clouds per second on Ray with one, two, … workers, and what 10⁹ clouds would take."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from reqnn.commands.base import OK, Command, console


@dataclass(kw_only=True)
class Throughput(Command):
    """Classify clouds of a Parquet file on a local Ray cluster; the same clouds by each number of workers.

    Workers have one thread each. The first shard of each worker warms up and is not counted.

    Examples:
        python -m experiments throughput
        python -m experiments throughput --workers 1 2 4 8 --clouds 4096
    """

    network: str = "dgcnn.full.modelnet40"
    """Name of weights, or a run."""
    clouds: int = 256
    """How many are counted."""
    shard: int = 32
    """Clouds per shard."""
    workers: tuple[int, ...] = (1, 2)
    """Numbers of workers."""
    out: Path = Path("results/throughput.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Measure, write."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        import reqnn
        from experiments.harness.table import Cell, Table
        from reqnn.deploy.ray_engine import answer_shards
        from reqnn.deploy.shards import Job, find_shards

        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112, its name; else other processes of this machine come first
        net = reqnn.load(self.network)
        points, rows, records = net.card["points"], [], []
        for workers in self.workers:
            with TemporaryDirectory() as folder:
                count = self.clouds + workers * self.shard
                flat = reqnn.data.surfaces(count, points)[0].float().flatten(1).tolist()
                pq.write_table(pa.table({"points": pa.array(flat, pa.list_(pa.float32()))}), f"{folder}/clouds.parquet")
                shards = find_shards([f"{folder}/clouds.parquet"], self.shard)
                job = Job("predict", f"{folder}/out", points)
                seconds, done = [], []
                for one in answer_shards(job, net, job.begin(shards, self.network), workers=workers):
                    seconds.append(time.perf_counter())
                    done.append(one)
                size = sum(part.stat().st_size for part in Path(folder, "out/results").iterdir())
                read = Path(folder, "clouds.parquet").stat().st_size
            counted = done[workers:]
            clouds, cpu = sum(one.answered for one in counted), sum(one.seconds for one in counted)
            assert sum(one.answered for one in done) == count
            wall = seconds[-1] - seconds[workers - 1]
            record = {
                "workers": workers,
                "clouds": clouds,
                "clouds_per_second": clouds / wall,
                "clouds_per_cpu_second": clouds / cpu,
                "cpus_per_worker": cpu / wall / workers,
                "bytes_read_per_cloud": read / count,
                "bytes_written_per_cloud": size / count,
                "core_hours_per_billion": 1e9 * cpu / clouds / 3600,
            }
            records.append(record)
            texts = [f"{workers}", f"{clouds}", f"{clouds / wall:.1f}", f"{clouds / cpu:.1f}", f"{cpu / wall / workers:.2f}"]
            texts += [f"{read / count:.0f}", f"{size / count:.0f}", f"{record['core_hours_per_billion']:,.0f}"]
            rows.append([Cell(text) for text in texts])
        columns = ["workers", "clouds", "clouds/s", "clouds per CPU second", "CPUs a worker got"]
        columns += ["bytes read per cloud", "written", "core hours for 10⁹ clouds"]
        settings = {"network": self.network, "points": points, "clouds per shard": self.shard, "cpus": os.cpu_count()}
        notes = ["CPUs a worker got: below 1 if other processes of the machine take their share; clouds/s then says little."]
        table = Table("throughput", "Clouds on Ray: throughput", columns, rows, records, settings, notes)
        table.print(console())
        table.write(self.out.parent)
        return OK
