"""All checks in one command.

    python -m tests [pytest arguments]            everything, in a few minutes
    python -m tests --quick [pytest arguments]    what is neither slow nor needs Spark or a browser
    python -m tests --long [NAME …] [--seed N]    for hours: random cases and kills; see tests/LONG.md
    python -m tests --compiled [arguments]        with the modules compiled that can be; needs a C compiler

One test: `python -m pytest tests/language/test_parser.py -k duration`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import compiled, long

ROOT = Path(__file__).parent.parent
QUICK = "not slow and not spark and not browser"

STYLE = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
}
TYPES = ["mypy"]
CACHE = "tests.java_cache"
# Tests are compiled here, once, and not in each of the processes that run them.
COLLECTION = ["pytest", "-n", "0", "--collect-only", "-qq"]
# A file's tests stay together, for what they share, and those of some folders; see conftest.py. Tests wait
# for servers and for Java much of the time, so there are two processes more than there are cores.
# A process that dies is replaced a few times only: the next one runs the test at which it died again.
TESTS = ["pytest", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "3"]
# Thousands of small states are written, and a third of the time would be spent on waiting for the disk.
# What is read after a kill is the kernel's copy on either; faults of a disk are made in tests/disk.
MEMORY = Path("/dev/shm")
NEEDED = 6 << 30
"""Bytes that must be free, of the file system in memory and of the memory itself."""


def main() -> int:
    given = sys.argv[1:]
    if "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    if "--long" in given:
        return long.main([each for each in given if each != "--long"])
    if "--compiled" in given:
        return compiled.main([each for each in given if each != "--compiled"])
    quick = "--quick" in given
    extra = [each for each in given if each != "--quick"]
    if quick:
        extra = ["-m", QUICK, *extra]
    return check(extra)


def check(arguments: list[str]) -> int:
    """Run every check, types beside the tests; 1 if any failed."""
    failed = [name for name, command in STYLE.items() if not _passes(name, command)]
    # Commands are started hundreds of times; without bytecode each compiles all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if _in_memory():
        os.environ.setdefault("TMPDIR", str(MEMORY))
    # Spark's tests come in the middle; meanwhile Java's cache for them is made.
    cache = None if arguments else subprocess.Popen([sys.executable, "-m", CACHE], cwd=ROOT)
    with tempfile.TemporaryFile("w+") as said:
        types = subprocess.Popen([sys.executable, "-m", *TYPES], cwd=ROOT, stdout=said, stderr=said)
        _passes("collection", COLLECTION, quiet=True)  # what fails here fails below, and says so
        workers = ["-n", str((os.cpu_count() or 1) + 2)]
        if not _passes("tests", [*TESTS, *workers, *arguments]):
            failed.append("tests")
        print(f"== types: {' '.join(TYPES)}", flush=True)
        if types.wait():
            failed.append("types")
        said.seek(0)
        print(said.read(), end="")
    if cache is not None:
        cache.wait()
    print(f"== failed: {', '.join(failed)}" if failed else "== all checks passed", flush=True)
    return 1 if failed else 0


def _in_memory() -> bool:
    """Whether there is a file system in memory that is large enough, and that programs may be in."""
    if not MEMORY.is_dir():
        return False
    found = os.statvfs(MEMORY)
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) << 10
    space = min(found.f_bavail * found.f_frsize, available)
    return space >= NEEDED and not found.f_flag & os.ST_NOEXEC


def _passes(name: str, command: list[str], quiet: bool = False) -> bool:
    print(f"== {name}: {' '.join(command)}", flush=True)
    out = subprocess.DEVNULL if quiet else None
    whole = [sys.executable, "-m", *command]
    return subprocess.run(whole, cwd=ROOT, stdout=out, stderr=out, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
