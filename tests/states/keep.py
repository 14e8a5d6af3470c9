"""A kept state and its expected continuation as files: one folder per version."""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.states import library, pipeline, service

HERE = Path(__file__).parent
KINDS: dict[str, Any] = {"service": service, "library": library, "pipeline": pipeline}
"""Each makes a state, and goes on with one."""

_WORK = Path("/tmp/kept-state")
"""Where states are made: the path of a file channel is in them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.states")
    parser.add_argument(
        "name", help="the folder to make, as version_3, or to add to what is not in it"
    )
    folder = HERE / parser.parse_args().name
    folder.mkdir(exist_ok=True)
    shutil.rmtree(_WORK, ignore_errors=True)
    try:
        for name, kind in KINDS.items():
            if (folder / f"{name}.tar.xz").exists():
                continue
            made = kind.make(_WORK / name)
            state = _WORK / name / "state"
            for file in (_WORK / name / "files").glob("*"):
                shutil.copy(file, state)
            for left in ("lock", "service.json"):
                (state / left).unlink(missing_ok=True)
            _packed(state, folder / f"{name}.tar.xz")
            (folder / f"{name}-made.json").write_text(dumped(made) + "\n", encoding="utf-8")
            with tempfile.TemporaryDirectory() as directory:
                found = kind.go_on(state, made, Path(directory))
            (folder / f"{name}.json").write_text(dumped(found) + "\n", encoding="utf-8")
    finally:
        shutil.rmtree(_WORK, ignore_errors=True)


def _packed(state: Path, archive: Path) -> None:
    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(state, "state", filter=anonymous)


def unpacked(archive: Path, directory: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(directory)  # an archive of our own, without links or absolute paths
    return directory / "state"


def dumped(value: Any, depth: int = 3) -> str:
    """JSON that is read in a diff: the upper levels in lines, and below a thing a line."""
    pad = " " * (3 - depth)
    if depth and isinstance(value, dict) and value:
        inner = (
            f"{pad} {json.dumps(name)}: {dumped(value[name], depth - 1)}" for name in sorted(value)
        )
        return "{\n" + ",\n".join(inner) + f"\n{pad}}}"
    if depth and isinstance(value, list) and value:
        inner = (f"{pad} {dumped(each, depth - 1)}" for each in value)
        return "[\n" + ",\n".join(inner) + f"\n{pad}]"
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
