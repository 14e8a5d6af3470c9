"""Runs every benchmark of this folder and assembles their results into one page.

    python -m bench.all [--quick] [--only NAME …]

A benchmark is a module here that can be run. Its part of the page is what it saved under
`results/`, else what it printed. `--quick` tries, in seconds, those that have such a mode, and
writes no page. With `--only` the other parts of the page are those of their last run.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

from bench.measure import RESULTS, machine, save

HERE = Path(__file__).parent
PAGE = HERE / "RESULTS.md"


def benchmarks() -> dict[str, Path]:
    """The modules of this folder that can be run, by name."""
    return {
        file.stem: file
        for file in sorted(HERE.glob("*.py"))
        if file.stem != "all" and '__name__ == "__main__"' in file.read_text(encoding="utf-8")
    }


def question(file: Path) -> str:
    """The first sentence of a benchmark's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
    return " ".join(docstring.split("\n\n")[0].split())


def run_one(name: str, quick: bool) -> bool:
    """Runs a benchmark; keeps what it printed as its results if it saved none. Whether it ended
    well."""
    saved = RESULTS / f"{name}.md"
    before = saved.stat().st_mtime_ns if saved.exists() else None
    command = [sys.executable, "-m", f"bench.{name}", *(["--quick"] if quick else [])]
    print(f"== {name}", flush=True)
    process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
    printed = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        printed.append(line)
    if process.wait() != 0:
        print(f"== {name} failed", flush=True)
        return False
    after = saved.stat().st_mtime_ns if saved.exists() else None
    if not quick and after == before:
        save(name, f"{machine()}\n\n```text\n{''.join(printed).strip()}\n```")
    return True


def assemble() -> None:
    """The page, of all results there are."""
    parts = [
        "# Results\n\nWritten by `python -m bench.all`; what is measured, and how, is in README.md."
    ]
    for name, file in benchmarks().items():
        saved = RESULTS / f"{name}.md"
        if saved.exists():
            text = saved.read_text(encoding="utf-8").strip()
            parts.append(f"## {name}\n\n{question(file)} (`python -m bench.{name}`)\n\n{text}")
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    known = benchmarks()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=known, default=list(known))
    args = parser.parse_args()
    chosen = [
        name
        for name in args.only
        if not args.quick or '"--quick"' in known[name].read_text(encoding="utf-8")
    ]
    failed = [name for name in chosen if not run_one(name, args.quick)]
    if not args.quick:
        assemble()
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
