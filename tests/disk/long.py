"""The long run: `python -m tests.disk.long --count 500 [--seed N]`.

As many power cuts at random moments, and as many trials in which one write, truncation or sync
fails: each call in turn while there are enough. Ends with 1 where something was lost.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from tests.disk.interception import possible
from tests.disk.trace import Trace
from tests.disk.trial import faults, trials
from tests.disk.workload import judge

_TOGETHER = 20
_FIRST = 4
"""Calls that make the engine's file."""


def _cut(trace: Trace, upto: int, r: Random, directory: Path) -> str:
    """What is wrong after a power cut before an event."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return _judged(lambda: judge(directory, trace.cut(upto, r, directory)))


def _judged(judged: object) -> str:
    try:
        assert callable(judged)
        judged()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if why := possible():
        print(why)
        return 1
    wrong = 0
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="disk-") as directory:
        path = Path(directory)
        [(_, trace)] = trials(path, [(0, 0)])
        places = trace.places()
        for number in range(args.count):
            r = Random(args.seed * 1_000_000 + number)
            upto = r.choice(places)
            if found := _cut(trace, upto, r, path / "cut"):
                wrong += 1
                print(f"power cut {number} at {upto}: {found}", flush=True)
        todo = faults(Random(args.seed), args.count, len(places) + _FIRST)
        for begin in range(0, len(todo), _TOGETHER):
            for number, trace in trials(path, todo[begin : begin + _TOGETHER]):
                if trace.failed is None:  # this time there were a few calls less
                    continue
                failed[trace.what_failed().partition(" ")[0]] += 1
                state = path / str(number)
                found = trace.broken or _judged(lambda s=state, t=trace: judge(s, t.known()))
                if not (trace.errors or trace.survived()):
                    found = found or "nobody was told"
                found = found or _cut(trace, len(trace.events), Random(number), path / "cut")
                if found:
                    wrong += 1
                    print(f"trial {number}, {trace.what_failed()}: {found}", flush=True)
                shutil.rmtree(state)
    kinds = ", ".join(f"{count} at a {kind}" for kind, count in sorted(failed.items()))
    print(f"{args.count} power cuts, {failed.total()} failures ({kinds}), {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
