"""The long run of a cluster: `python -m tests.cluster.long --kills 200 [--seed N]`.

A run in shards on a standalone cluster of four workers; after each addition of documents an
executor, a worker or the coordinator is killed at a random moment. What is found in the end is what
one machine finds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from tests.cluster.standalone import Flow, alone, matches_of, started, write_query
from tests.waiting import pause

_PART = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random, kills = Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        directory = Path(name)
        write_query(directory)
        with started(directory / "cluster", workers=4) as cluster:
            flow = Flow(cluster, directory)
            for _ in range(options.kills):
                flow.add(_PART)
                pause(random.expovariate(2.0))
                struck = random.choice(("executor", "worker", "coordinator"))
                if struck == "executor":
                    cluster.kill_executor()
                elif struck == "worker":
                    cluster.kill_worker()
                else:
                    flow.kill()
                    flow.start()
                kills[struck] += 1
                flow.until_found(matches_of(flow.end))
                print(f"{kills.total()} kills, {flow.end} documents", flush=True)
            flow.kill()
        found, wanted = flow.found(), alone(directory, flow.end)
    by_kind = ", ".join(f"{count} of {kind}s" for kind, count in sorted(kills.items()))
    outcome = f"{kills.total()} kills ({by_kind}), {flow.end:,} documents, {len(found):,} matches"
    print(f"{outcome}, {'as one machine finds' if found == wanted else 'not those of one machine'}")
    return 0 if found == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
