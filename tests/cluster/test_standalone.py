"""The README's query on a standalone cluster of the packages alone, by the page's commands."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.spark.standalone import start_master, start_worker
from tests.command import run
from tests.docs.markdown import ROOT
from tests.waiting import PATIENCE, until

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers of two cores each."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    directory = tmp_path_factory.mktemp("standalone")
    url = f"spark://{HOST}:{port}"
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(start_master(directory / "master", HOST, port))
        until(lambda: listens(port))
        for number in range(2):
            place = directory / f"worker{number}"
            running.append(start_worker(place, url, HOST, 2, "1g"))
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(PATIENCE)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_a_run_in_shards_finds_what_one_machine_finds(master: str, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```xscl\n(-- followed.xscl.*?)```", readme, re.DOTALL)
    (tmp_path / "followed.xscl").write_text(query, encoding="utf-8")
    with (tmp_path / "documents.jsonl").open("w", encoding="utf-8") as file:
        for n in range(300):
            parts = f"<item_url>http://x/{n % 90}</item_url><title>t{n}</title>"
            xml = f"<item>{parts}<channel_title>c{n % 4}</channel_title></item>"
            said = {"id": f"d{n}", "stream": "S", "timestamp": 1_700_000_000 + n, "xml": xml}
            file.write(json.dumps(said) + "\n")
    both = ("run", "followed.xscl", "--documents", "documents.jsonl", "--once", "--out")
    settings = (f"spark.driver.host={HOST}", "spark.executor.memory=512m")
    conf = [word for setting in settings for word in ("--conf", setting)]
    shards = ("--master", master, "--shards", "2", "--shared", "shared", *conf)
    done = run(("cluster", "check", *shards), cwd=tmp_path, timeout=4 * PATIENCE)
    assert re.fullmatch(r"\d cores on 1 machine, nothing is missing\n", done.stdout), done.stderr
    for out, more in (("alone.jsonl", ("--pipeline", "local")), ("shards.jsonl", shards)):
        done = run((*both, out, *more), cwd=tmp_path, timeout=4 * PATIENCE)
        assert done.returncode == 0, done.stderr
    alone, divided = (
        sorted((tmp_path / name).read_text(encoding="utf-8").splitlines())
        for name in ("alone.jsonl", "shards.jsonl")
    )
    assert alone
    assert divided == alone
