"""All checks, in the order in which they are cheapest: `python -m tests [pytest arguments]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Files in their own order: the few that take minutes would otherwise come last, one after the other.
CHECKS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "tests": ["pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
}


def main() -> int:
    failed = []
    for name, command in CHECKS.items():
        print(f"== {name}: {' '.join(command)}", flush=True)
        extra = sys.argv[1:] if name == "tests" else []
        if subprocess.run(
            [sys.executable, "-m", *command, *extra], cwd=ROOT, check=False
        ).returncode:
            failed.append(name)
    print(f"== failed: {', '.join(failed)}" if failed else "== all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
