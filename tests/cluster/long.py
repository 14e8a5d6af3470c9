"""The long run of a cluster: `python -m tests.cluster.long --kills 200 [--seed N] [--minutes M]`.

A run in shards on a standalone cluster of four workers, with the README's query and event patterns.
After each addition of documents one to nine executors, workers and coordinators are killed, at
random moments: also while what was killed before is being made again. No match may be written
twice, and what is found in the end is what one machine finds. With `--minutes` it begins no further
kill after so long.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.cluster.standalone import (
    Cluster,
    Flow,
    alone,
    followed,
    matches_of,
    started,
    write_queries,
)
from tests.waiting import pause

_PART = 60
_MOST = 9
_BETWEEN = (0.2, 1.0, 5.0)
"""Seconds between two kills in the mean: less than a start of Java takes, and more."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    options = parser.parse_args()
    latest = time.monotonic() + 60 * options.minutes
    random, kills = Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        directory = Path(name)
        write_queries(directory)
        with started(directory / "cluster", workers=4) as cluster:
            flow = Flow(cluster, directory)
            while kills.total() < options.kills and time.monotonic() < latest:
                flow.add(_PART)
                last = []
                for _ in range(min(random.randint(1, _MOST), options.kills - kills.total())):
                    pause(random.expovariate(1 / random.choice(_BETWEEN)))
                    last.append(_kill(random, cluster, flow))
                kills.update(last)
                flow.until_found(matches_of(flow.end))
                now = flow.found()
                if len({*now}) != len(now):
                    print(f"written twice after {kills.total()} kills, the last: {last}")
                    return 1
                print(f"{kills.total()} kills, {flow.end} documents", flush=True)
            wanted = alone(directory, flow.end)
            with suppress(AssertionError):
                flow.until_written(wanted)
            flow.kill()
        found = flow.found()
    by_kind = ", ".join(f"{count} of {kind}s" for kind, count in sorted(kills.items()))
    joined = len(followed(found))
    outcome = (
        f"{kills.total()} kills ({by_kind}), {flow.end:,} documents, {len(found):,} matches, "
        f"{len(found) - joined:,} of patterns"
    )
    print(f"{outcome}, {'as one machine finds' if found == wanted else 'not those of one machine'}")
    return 0 if found == wanted else 1


def _kill(random: Random, cluster: Cluster, flow: Flow) -> str:
    """Kill one of them; returns what it was. Where no executor is there yet, it is a worker."""
    struck = random.choice(("executor", "worker", "coordinator"))
    executors = cluster.executors()
    if struck == "executor" and executors:
        with suppress(ProcessLookupError):  # it has ended with what was killed before
            os.kill(random.choice(executors), signal.SIGKILL)
    elif struck == "coordinator":
        flow.kill()
        flow.start()
    else:
        struck = "worker"
        cluster.kill_worker(random.randrange(len(cluster.workers)))
    return struck


if __name__ == "__main__":
    sys.exit(main())
