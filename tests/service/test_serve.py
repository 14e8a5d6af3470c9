"""`broker serve` as a process: it accepts, matches, stops on request, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from tests.command import run
from tests.feeds.data import ROOT
from tests.service.data import ORDERS, PAIR
from tests.service.process import Process
from tests.waiting import PATIENCE, until


def serve(*options: object) -> subprocess.CompletedProcess[str]:
    """One that is expected to end by itself."""
    return run(["serve", *options], cwd=ROOT, timeout=PATIENCE)


def test_documents_come_in_and_matches_go_out(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Process(state) as broker:
        (pair,) = broker.subscribe(PAIR)
        assert pair["first_doc"] == 1
        broker.publish("<order><part>7</part><site>Kiel</site></order>", Document_Id="o")
        accepted = broker.publish(
            "<receipt><part>7</part><site>Kiel</site></receipt>", Document_Id="r"
        )
        assert accepted == {"accepted": 1, "known": 0, "first": 2, "last": 2, "ids": ["r"]}
        (match,) = broker.matches(wait=30)
        assert [document["id"] for document in match["documents"]] == ["o", "r"]
        assert match["values"]["p"] == ["7"]
        assert httpx.get(f"{broker.client.base_url}/health/ready").status_code == 200
        files = {path.name: path.stat().st_mode & 0o777 for path in state.iterdir()}
        assert set(files.values()) == {0o600}
        assert broker.terminate() == 0
    assert sorted(path.name for path in state.iterdir()) == [
        "access.sqlite",
        "broker.duckdb",
        "lock",
        "mailbox.sqlite",
        "proof",
        "spool.sqlite",
        "token",
        "working.json",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_while_documents_flow_it_loses_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    accepted: dict[int, str] = {}
    refused: list[int] = []

    def publish(broker: Process, name: int) -> None:
        with httpx.Client(base_url=broker.client.base_url, headers=broker.client.headers) as client:
            for n in range(100_000):
                id = f"{name}-{n}"
                xml = f"<order><part>{id}</part></order>"
                headers = {"Content-Type": "application/xml", "Document-Id": id}
                try:
                    answer = client.post(
                        "/v1/streams/S/documents", content=xml, headers=headers, timeout=PATIENCE
                    )
                except httpx.TransportError:
                    return  # it has stopped listening
                if answer.status_code != 202:
                    refused.append(answer.status_code)
                    return
                accepted[answer.json()["first"]] = id

    with Process(state) as broker:
        broker.subscribe(ORDERS)
        threads = [threading.Thread(target=publish, args=(broker, name)) for name in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(accepted) > 100)
        assert broker.terminate(number) == 0
        for thread in threads:
            thread.join()
    assert set(refused) <= {503}
    assert sorted(accepted) == list(range(1, len(accepted) + 1))
    with Process(state) as broker:
        until(lambda: broker.status()["intake"]["backlog"] == 0)
        until(lambda: broker.status()["engine"]["outbox"] == 0)
        found = [match["values"]["p"][0] for match in broker.all_matches("orders")]
        assert sorted(found) == sorted(accepted.values())
        assert broker.terminate() == 0


def test_killed_at_any_moment_it_loses_nothing_and_finds_nothing_twice(tmp_path: Path) -> None:
    state = tmp_path / "state"
    accepted: dict[int, str] = {}
    maybe: set[str] = set()
    for life in range(3):
        with Process(state) as broker:
            if not life:
                broker.subscribe(ORDERS)
            for n in range(1_000_000):
                id = f"{life}-{n}"
                if n == 60 + life * 40:
                    threading.Timer(0.01 * life, broker.kill).start()
                maybe.add(id)
                try:
                    done = broker.publish(f"<order><part>{id}</part></order>", Document_Id=id)
                except httpx.TransportError:
                    break
                accepted[done["first"]] = id
    with Process(state) as broker:
        assert [each["id"] for each in broker.client.get("/v1/subscriptions").json()] == ["orders"]
        until(lambda: broker.status()["intake"]["backlog"] == 0)
        until(lambda: broker.status()["engine"]["outbox"] == 0)
        found = [match["values"]["p"][0] for match in broker.all_matches("orders")]
        assert len(found) == len(set(found))
        assert set(accepted.values()) <= set(found) <= maybe
        assert len(found) <= len(accepted) + 3  # what was under way at each kill


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """While something is still under way: here a publisher whose body does not come."""
    with Process(tmp_path / "state") as broker:
        url = broker.client.base_url
        with socket.create_connection((url.host, url.port or 80)) as slow:
            authorization = broker.client.headers["Authorization"]
            slow.sendall(
                f"POST /v1/streams/S/documents HTTP/1.1\r\nHost: {url.host}\r\n"
                f"Authorization: {authorization}\r\nContent-Type: application/xml\r\n"
                "Content-Length: 100\r\n\r\n<order>".encode()
            )
            until(lambda: broker.client.get("/health/live").status_code == 200)
            broker.process.send_signal(signal.SIGTERM)
            until(lambda: b"service.draining" in broker.log.read_bytes())
            assert broker.process.poll() is None
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(PATIENCE) == 128 + signal.SIGTERM
    with Process(tmp_path / "state") as broker:
        assert broker.status()["state"] == "running"


def test_what_keeps_it_from_starting_is_said_in_one_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Process(state) as broker:
        done = serve("--state", state, "--port", "0")
        assert done.returncode == 1
        assert "another process uses this state" in done.stderr
        assert json.loads((state / "service.json").read_text())["pid"] == broker.process.pid
        port = broker.client.base_url.port
        done = serve("--state", tmp_path / "other", "--port", port)
        assert (done.returncode, done.stderr.strip()) == (
            1,
            f"broker: cannot listen on 127.0.0.1:{port}: Address already in use; give another "
            "--port (server.port), 0 for any that is free",
        )
        assert not (tmp_path / "other").exists()
    for name in ("spool.sqlite", "mailbox.sqlite", "broker.duckdb"):
        broken = tmp_path / f"broken-{name}"
        broken.mkdir()
        (broken / name).write_bytes(os.urandom(20_000))
        done = serve("--state", broken, "--port", "0")
        assert done.returncode == 1, done.stderr
        assert name in done.stderr
        assert "Traceback" not in done.stderr
    done = serve("--state", state, "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "token" in done.stderr
