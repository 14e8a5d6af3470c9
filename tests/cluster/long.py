"""The long run of a cluster: `python -m tests.cluster.long --kills 200 [--seed N] [--minutes M]`.

A run in shards on a standalone cluster of four workers, with the README's query and event patterns; after each addition of documents an
executor, a worker or the coordinator is killed at a random moment. No match may be written twice,
and what is found in the end is what one machine finds. With `--minutes` it begins no further kill
after so long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.cluster.standalone import Flow, alone, followed, matches_of, started, write_queries
from tests.waiting import pause

_PART = 60


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
            for _ in range(options.kills):
                if time.monotonic() > latest:
                    break
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
                now = flow.found()
                if len({*now}) != len(now):
                    print(f"written twice after {kills.total()} kills, the last of a {struck}")
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


if __name__ == "__main__":
    sys.exit(main())
