"""The programs of a standalone cluster, without Java."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import NEVER, PATIENCE

_STARTER = f"""
import os, pathlib
from broker.spark.standalone import begin
program = begin(["sleep", "{NEVER:.0f}"], pathlib.Path("."), os.environ)
print("begun", flush=True)
program.wait()
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="no other system tells a process of its parent's end"
)
def test_a_program_ends_when_what_has_started_it_is_killed(tmp_path: Path) -> None:
    """Both have the pipe open, which is at its end when neither does."""
    command = [sys.executable, "-c", _STARTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"begun\n"
        starter.kill()
        assert select.select([starter.stdout], [], [], PATIENCE)[0]
        assert starter.stdout.read() == b""
