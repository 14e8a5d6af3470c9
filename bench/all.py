"""Runs every benchmark of this folder and assembles their results into one page.

    python -m bench.all [--quick] [--only NAME …]

A benchmark is a module here that can be run. Its part of the page is what it saved under
`results/`, else what it printed, below what `notes/` says to it: first the answer to its question,
in a paragraph, then how to read the numbers. `--quick` tries, in seconds, those that have such a
mode, and writes no page. With `--only` the other parts of the page are those of their last run;
with `--only` and nothing behind it the page is put together again.
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
NOTES = HERE / "notes"
ORDER = (
    "main_job",
    "end_to_end",
    "versus",
    "rss",
    "distinct",
    "technical",
    "constants",
    "register",
)
"""Which come first on the page; the others follow by name."""

WITH = {
    "patterns": (
        "patterns_shared",
        "patterns_several",
        "patterns_engines",
        "patterns_cayuga",
        "patterns_windows",
        "patterns_plans",
        "planner",
    ),
}
"""What else is run where one of them is asked for: parts of the same question."""


def benchmarks() -> dict[str, Path]:
    """The modules of this folder that can be run, by name, in the order of the page."""
    found = {
        file.stem: file
        for file in sorted(HERE.glob("*.py"))
        if file.stem != "all" and '__name__ == "__main__"' in file.read_text(encoding="utf-8")
    }
    first = [name for name in ORDER if name in found]
    return {name: found[name] for name in [*first, *(n for n in found if n not in first)]}


def question(file: Path) -> str:
    """The first sentence of a benchmark's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
    return " ".join(docstring.split("\n\n")[0].split())


def tries(file: Path) -> bool:
    """Whether a benchmark can be tried with `--quick`."""
    text = file.read_text(encoding="utf-8")
    return "parser(__doc__)" in text or '"--quick"' in text


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


def note(name: str) -> tuple[str, str]:
    """The answer to a benchmark's question, and what else there is to say to its numbers."""
    file = NOTES / f"{name}.md"
    answer, _, rest = (file.read_text(encoding="utf-8") if file.exists() else "").partition("\n\n")
    return " ".join(answer.split()), rest.strip()


def assemble() -> None:
    """The page, of all results there are."""
    head, parts = [], []
    for name, file in benchmarks().items():
        saved = RESULTS / f"{name}.md"
        if saved.exists():
            asked, (answer, rest) = question(file), note(name)
            head.append(f"- *[{asked}](#{name})* {answer}")
            text = [f"## {name}", f"*{asked}* (`python -m bench.{name}`)", answer, rest]
            parts += [*filter(None, text), saved.read_text(encoding="utf-8").strip()]
    opening = (
        "# Results\n\nWritten by `python -m bench.all`; what is measured, and how, is in"
        " [README.md](README.md), and what follows for machines to buy in [COST.md](COST.md)."
    )
    PAGE.write_text(
        "\n\n".join([opening, "\n".join(head), *parts]) + "\n",
        encoding="utf-8",
    )


def main() -> None:
    known = benchmarks()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=known, default=list(known))
    args = parser.parse_args()
    named = dict.fromkeys([each for name in args.only for each in (name, *WITH.get(name, ()))])
    chosen = [name for name in named if not args.quick or tries(known[name])]
    failed = [name for name in chosen if not run_one(name, args.quick)]
    if not args.quick:
        assemble()
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
