"""How many random cases a test tries: a share in the ordinary command, all of them in a long run.

    python -m tests.seeds [--percent 100]     the tests that ask here, with all their cases

`python -m tests --long seeds` runs this too, and notes what came of it in tests/LONG.md.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PERCENT = "TESTS_SEEDS_PERCENT"


def seeds(few: int, every: int, start: int = 0) -> range:
    """The seeds of a test from `start` on: `few` of them, or `every` one in a long run."""
    percent = os.environ.get(_PERCENT)
    return range(start, start + (few if percent is None else max(few, every * int(percent) // 100)))


def is_long() -> bool:
    """Whether all cases are to be tried, and in all ways."""
    return _PERCENT in os.environ


def asking() -> list[str]:
    """The files of tests whose cases are counted here, or whose ways are."""
    wanted = re.compile(r"^from tests\.(seeds|cases\.running) import", re.MULTILINE)
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        str(file.relative_to(ROOT))
        for file in files
        if wanted.search(file.read_text(encoding="utf-8"))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--percent", type=int, default=100, help="of all cases (default: 100)")
    parser.add_argument("--seed", type=int, help="of hash codes; the cases stay the same")
    percent = parser.parse_args().percent
    workers = str(os.cpu_count() or 1)
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, *asking()]
    environment = {**os.environ, _PERCENT: str(percent)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
