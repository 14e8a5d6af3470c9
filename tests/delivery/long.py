"""The long run of delivery: `python -m tests.delivery.long --kills 200 [--seed N]`.

A process that takes matches and delivers them is killed at random moments; each match arrives.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.delivery.test_killed import killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=20, help="kills that a mailbox lives through")
    options = parser.parse_args()
    done = 0
    for number in range(-(-options.kills // options.each)):
        kills = min(options.each, options.kills - done)
        with tempfile.TemporaryDirectory(prefix="delivery-") as directory:
            killed(Path(directory), kills, options.seed + number)
        done += kills
        print(f"{done} kills, everything has arrived", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
