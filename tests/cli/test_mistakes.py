"""Mistakes at the command line are refused with what is wrong, before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.serving import run


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "q.xscl"
    path.write_text("S//a;")
    return path


@pytest.mark.parametrize(
    ("option", "said"),
    [("--split", "is no name of an element"), ("--stream", "cannot be the name of a stream")],
)
@pytest.mark.parametrize("name", ["", "a b", "<a>"])
@pytest.mark.parametrize("command", ["run", "why"])
def test_options_take_the_name_of_an_element_and_of_a_stream(
    query: Path, tmp_path: Path, command: str, name: str, option: str, said: str
) -> None:
    (tmp_path / "d.xml").write_text("<a/>")
    done = run(command, query, "--documents", tmp_path / "d.xml", option, name)
    assert (done.returncode, said in done.stderr) == (2, True)


def test_documents_are_files_or_directories(query: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run("run", query, "--documents", tmp_path / "pipe", "--once", "--pipeline", "local")
    assert (done.returncode, "neither a file nor a directory" in done.stderr) == (2, True)


@pytest.mark.parametrize("encoding", ["utf-16", "latin1"])
def test_a_query_file_in_another_encoding_is_converted_from_that(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "q.xscl"
    path.write_text("S//a[./b = 'é'];", encoding=encoding)
    done = run("check", path)
    assert (done.returncode, f"iconv -f {encoding} -t utf-8" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", [["run", "--once", "--documents", "."], ["subscribe"]])
def test_a_file_without_a_query_is_wrong_for_each_command(
    tmp_path: Path, command: list[str]
) -> None:
    path = tmp_path / "empty.xscl"
    path.write_text("-- nothing yet\n")
    done = run(*command, path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "broker: the query files hold no query\n")
