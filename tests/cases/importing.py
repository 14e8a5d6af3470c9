"""Converts cases from a file of JSON lines to folders.

    python -m tests.cases.importing ../shared/data/patterns/cases.jsonl list-three within-edge

makes a folder for each case that is named, or says that there is none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cases.reading import HERE
from tests.cases.running import formatted


def write(case: dict[str, Any], folder: Path) -> None:
    """`docs` are [id, streams, time, xml] or with "revision"; all other fields go as they are."""
    folder.mkdir(parents=True)
    (folder / "query.xscl").write_text(case["query"].strip() + "\n", encoding="utf-8")
    lines = []
    for id, streams, time, xml, *revision in case["docs"]:
        through = streams if isinstance(streams, str) else ",".join(streams)
        at = time if isinstance(time, str) else f"{time:.6f}".rstrip("0").rstrip(".")
        lines.append([id, through, at, *revision, xml])
    (folder / "documents.txt").write_text(_columns(lines), encoding="utf-8")
    told = {name: value for name, value in case.items() if name not in ("name", "query", "docs")}
    if "error" in told and not told["matches"]:
        del told["matches"]
    (folder / "expected.json").write_text(
        formatted({"why": told.pop("why"), **told}), encoding="utf-8"
    )


def _columns(lines: list[list[str]]) -> str:
    widths = [max((len(line[at]) for line in lines), default=0) for at in range(3)]
    return "".join(
        "  ".join(
            [*(text.ljust(width) for text, width in zip(line, widths, strict=False)), *line[3:]]
        )
        + "\n"
        for line in lines
    )


def main() -> None:
    path, *names = sys.argv[1:]
    text = Path(path).read_text(encoding="utf-8")
    found = {case["name"]: case for case in map(json.loads, text.splitlines())}
    for name in names:
        if name not in found:
            sys.exit(f"{path}: no case is called {name}")
        write(found[name], HERE / name)


if __name__ == "__main__":
    main()
