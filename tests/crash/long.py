"""The long run: `python -m tests.crash.long --kills 200 [--seed N] [--pipeline local|spark] [--apart]`.

A state lives through some kills, is judged, and the next one begins. After each kill copies of it are
damaged, which is refused, told or made good. Prints a line for each kill
and each verdict; ends with 1 at the first failure, with what was found wrong and the way to see it
again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.crash.episode import Kill, Struck, aimed, live, random_kills
from tests.crash.points import POINTS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pipeline", choices=["local", "spark"], default="local")
    parser.add_argument("--each", type=int, default=20, help="kills that a state lives through")
    parser.add_argument("--point", choices=sorted(POINTS), help="kill there, every time")
    parser.add_argument(
        "--damages", type=int, default=2, help="of copies, after each kill but the first"
    )
    parser.add_argument("--apart", action="store_true", help="stage 1 in a second process")
    parser.add_argument("--keep", action="store_true", help="leave the last state where it is")
    args = parser.parse_args()
    began = time.monotonic()
    total: Counter[str] = Counter()
    done = missed = 0

    def tell(struck: Struck) -> None:
        nonlocal done, missed
        done += 1
        missed += not struck.reached
        word = "" if struck.reached else ", not reached"
        at = time.monotonic() - began
        print(f"{at:7.1f} s  {done:4}  {struck.seconds:5.1f} s  {struck.kill}{word}", flush=True)

    for number in range(-(-args.kills // args.each)):
        seed = args.seed * 10_000 + number
        directory = Path(tempfile.mkdtemp(prefix="crash-"))
        kills = _kills(Random(seed), min(args.each, args.kills - done), args.point)
        try:
            _, found = live(
                directory,
                seed,
                kills,
                pipeline=args.pipeline,
                damages=args.damages,
                apart=args.apart,
                tell=tell,
            )
        except AssertionError as error:
            command = f"--seed {args.seed} --kills {args.kills} --each {args.each}"
            command += f" --pipeline {args.pipeline}" + " --apart" * args.apart
            print(f"FAILED: {error}\nagain: {command}", flush=True)
            return 1
        total.update(found)
        print(f"{time.monotonic() - began:7.1f} s  as the oracle says: {_said(found)}", flush=True)
        if not args.keep:
            shutil.rmtree(directory)
    print(f"{done} kills ({missed} at a point that was not reached), {_said(total)}")
    return 0


def _kills(random: Random, count: int, point: str | None) -> list[Kill]:
    if point is not None:
        return [aimed(random, point) for _ in range(count)]
    return random_kills(random, count)


def _said(found: Counter[str] | dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in found.items())


if __name__ == "__main__":
    sys.exit(main())
