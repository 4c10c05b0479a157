"""Runs a batch on a Ray cluster whose nodes die: `python tests/bench/ray_faults.py FILE STORE.db --seed 0`.

The cluster is Ray's imitation of one on this machine: a head that does no work, and `--nodes` nodes of one
core. Every `--every` seconds a node, drawn at random, is killed with all its processes, and another one takes
its place. Each run is a task of the cluster, and all write to STORE.db. Prints a line a kill, seconds since
the start and candidates stored, and at the end the exit code of the batch. Then `tests/bench/same_rows.py`
says whether the rows are those of a batch that nobody disturbed.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from batch_faults import stored
from ray.cluster_utils import Cluster

_MEMORY = 100 << 20
"""Of a node's objects, in bytes."""


def main() -> None:
    """Run the batch, kill nodes until it ends, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="the batch, or a suite")
    parser.add_argument("store", type=Path, help="an SQLite file that is not there yet")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from one kill to the next")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of nodes")
    given = parser.parse_args()
    if given.store.exists():
        parser.error(f"{given.store} is there already; name a new file")
    rng, began = random.Random(given.seed), time.monotonic()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=_MEMORY) for _ in range(given.nodes)]
    command = [sys.executable, "-m", "evovpo", "batch", given.file, "--store", str(given.store)]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    batch = subprocess.Popen([*command, "--executor", "ray", "--json"], env=environment)
    kills = 0
    while True:
        try:
            code = batch.wait(given.every)
            break
        except subprocess.TimeoutExpired:
            cluster.remove_node(nodes.pop(rng.randrange(len(nodes))), allow_graceful=False)
            kills += 1
            said = f"{time.monotonic() - began:.0f} s, {stored(given.store)} candidates: killed a node"
            print(said, flush=True)
            while len(nodes) < given.nodes:
                try:
                    nodes.append(cluster.add_node(num_cpus=1, object_store_memory=_MEMORY))
                except Exception as error:  # no narrower one: Ray raises it for a node that starts too slowly
                    print(f"a node did not start: {str(error)[:80]}", flush=True)
    cluster.shutdown()
    took = time.monotonic() - began
    print(f"{took:.0f} s, {stored(given.store)} candidates: {kills} nodes killed, exit code {code}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
