"""A standalone cluster of the packages alone, and a run in shards on it that may be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from broker.spark.java_cache import cache_directory, find_cache
from broker.spark.session import LOCAL_JAVA, local_cache_key
from broker.spark.standalone import start_master, start_worker
from tests.command import Command, run
from tests.docs.markdown import ROOT
from tests.ports import reserved_port
from tests.waiting import PATIENCE, until

HOST = "127.0.0.1"
SHARDS = 2
SPREAD = ("spark.cores.max=4",)
"""Two executors of two cores each, on two workers."""
TOGETHER = ("spark.cores.max=3", "spark.executor.cores=3")
"""One executor that has three cores of a worker."""
IN_ORDER = ("--lateness", "30")
"""Half a minute: documents come in order, and event patterns are to be decided."""
_SETTINGS = (
    f"spark.driver.host={HOST}",
    "spark.executor.memory=512m",
    "spark.speculation=true",
)
_LINKS, _SITES, _ROUND = 90, 4, 360
"""Links and sites come again every so often; the links of each round are its own."""
PATTERNS = """
next: SELECT l FROM S//item[./item_url->l] NEXT {l = m, 1 h} S//item[./item_url->m];
once: SELECT l FROM S//item[./item_url->l] FOLLOWED BY {l = m, 2 min} NOT S//item[./item_url->m];
pairs: S//item[./title->a] FOLLOWED BY {1 min} S//item[./title->b]
    PARTITION BY ./channel_title USING NON OVERLAPPING;
"""
"""What is kept from match to match, what is decided later, and what did not come."""


@dataclass
class Cluster:
    """A master, and workers of so many cores each."""

    directory: Path
    url: str
    cores: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    begun: int = 0
    """How many workers were started."""

    @property
    def words(self) -> list[str]:
        """What a command is told of it."""
        java = [f"spark.{each}.extraJavaOptions={_java()}" for each in ("driver", "executor")]
        conf = [word for setting in (*_SETTINGS, *java) for word in ("--conf", setting)]
        return ["--master", self.url, "--shards", str(SHARDS), "--shared", "shared", *conf]

    def add_worker(self) -> None:
        place = self.directory / f"worker{self.begun}"
        self.workers.append(start_worker(place, self.url, HOST, self.cores, "1g"))
        self.begun += 1

    def kill_worker(self, which: int = -1) -> None:
        """Kill a worker, the newest unless told, and start another."""
        killed = self.workers.pop(which)
        killed.kill()
        killed.wait(PATIENCE)
        self.add_worker()

    def executors(self) -> list[int]:
        """The processes of all executors, those of the oldest worker first."""
        return [pid for worker in self.workers for pid in _children(worker.pid)]

    def kill_executor(self) -> None:
        """Kill an executor of the first worker."""
        os.kill(until(lambda: _children(self.workers[0].pid))[0], signal.SIGKILL)


def _java() -> str:
    """Options of Java as in a local session: neither coordinators nor executors live for long."""
    directory, key = cache_directory(), local_cache_key()
    cache = find_cache(directory, key) if directory and key else None
    return " ".join([*LOCAL_JAVA, *([f"-XX:AOTCache={cache}"] if cache else [])])


@contextmanager
def started(directory: Path, workers: int, cores: int = 2) -> Iterator[Cluster]:
    """A cluster of so many workers; its processes end with the block."""
    port = reserved_port()
    cluster = Cluster(directory, f"spark://{HOST}:{port}", cores)
    master = start_master(directory / "master", HOST, port)
    try:
        until(lambda: _listens(port))
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            process.terminate()
        for process in (*cluster.workers, master):
            process.wait(PATIENCE)


def _children(pid: int) -> list[int]:
    """The processes that the threads of a process have started."""
    found: list[int] = []
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, each.read_text().split())
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def write_queries(directory: Path) -> None:
    """The README's query, two sites have the same link, and event patterns over the same items."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```xscl\n(-- followed.xscl.*?)```", readme, re.DOTALL)
    (directory / "followed.xscl").write_text(query + PATTERNS, encoding="utf-8")


def write_documents(file: Path, begin: int, end: int) -> None:
    """Some documents as JSON lines, in a file that is whole when it appears."""
    new = file.parent.with_name("new")
    with new.open("w", encoding="utf-8") as lines:
        for n in range(begin, end):
            parts = f"<item_url>{_link(n)}</item_url><title>t{n}</title>"
            xml = f"<item>{parts}<channel_title>{_site(n)}</channel_title></item>"
            said = {"id": f"d{n}", "stream": "S", "timestamp": 1_700_000_000 + n, "xml": xml}
            lines.write(json.dumps(said) + "\n")
    new.replace(file)


def _link(n: int) -> str:
    return f"http://x/{n // _ROUND}/{n % _LINKS}"


def _site(n: int) -> str:
    return f"c{n % _SITES}"


def matches_of(end: int) -> int:
    """How many matches the documents up to one have."""
    return sum(
        _site(n) != _site(m)
        for m in range(end)
        for n in range(m - m % _ROUND + m % _LINKS, m, _LINKS)
    )


def written(file: Path) -> list[str]:
    """The lines of a file, in alphabetic order."""
    return sorted(file.read_text(encoding="utf-8").splitlines()) if file.exists() else []


def alone(directory: Path, end: int) -> list[str]:
    """What one machine writes of the documents up to one."""
    write_documents(directory / "alone.jsonl", 0, end)
    words = ("run", "followed.xscl", "--documents", "alone.jsonl", "--once", "--pipeline", "local")
    more = ("--format", "jsonl", "--out", "alone.out", *IN_ORDER)
    done = run((*words, *more), cwd=directory, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found = written(directory / "alone.out")
    assert len(followed(found)) == matches_of(end) > 0
    return found


def followed(found: list[str]) -> list[str]:
    """The matches of the README's query among lines that were written."""
    return [line for line in found if json.loads(line)["query"] == "same-page"]


class Flow:
    """Documents that are added to a folder, and the coordinator that reads them, or others. What it
    finds is written to a file named like its state."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        state: str = "state",
        documents: Sequence[str] = ("documents",),
        conf: Sequence[str] = (),
    ) -> None:
        self.documents = documents
        self.conf = conf
        self.cluster = cluster
        self.directory = directory
        self.state = state
        self.end = 0
        (directory / "documents").mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start the coordinator, with its state of before."""
        words = ["run", "followed.xscl", "--documents", *self.documents, "--format", "jsonl"]
        words += [
            *IN_ORDER,
            *self.cluster.words,
            *(word for setting in self.conf for word in ("--conf", setting)),
            "--state",
            self.state,
            "--out",
            f"{self.state}.jsonl",
        ]
        with (self.directory / f"{self.state}.err").open("ab") as errors:
            self.running = Command(words, cwd=self.directory, stderr=errors)

    def add(self, count: int) -> None:
        """Add documents, all at once."""
        begin, self.end = self.end, self.end + count
        write_documents(self.directory / "documents" / f"{self.end}.jsonl", begin, self.end)

    def kill(self) -> None:
        """Kill the coordinator."""
        self.running.kill()
        self.running.wait(PATIENCE)

    def found(self) -> list[str]:
        return written(self.directory / f"{self.state}.jsonl")

    def said(self) -> str:
        """What it has said so far."""
        return (self.directory / f"{self.state}.err").read_text(encoding="utf-8")

    def until_found(self, count: int) -> None:
        """Wait until so many matches of the README's query are written; there may be more."""
        until(lambda: len(followed(self.found())) >= count, self.said)

    def until_written(self, lines: list[str]) -> None:
        """Wait until these lines are written, and see that there are no others."""
        until(lambda: len(self.found()) >= len(lines), self.said)
        assert self.found() == lines
