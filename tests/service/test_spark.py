"""The service with Spark has the same behaviour as with the local pipeline."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.feeds.data import ROOT
from tests.service.data import ORDERS
from tests.service.process import Process
from tests.waiting import PATIENCE, pause, until
from tests.web.harness import CHROMIUM, chromium, sign_in


def java(broker: Process) -> int | None:
    """The JVM that the process has started."""
    pid = broker.process.pid
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for number in child.read_text().split():
            if "java" in Path(f"/proc/{number}/cmdline").read_text().split("\0")[0]:
                return int(number)
    return None


def look_at_operations(broker: Process) -> None:
    """The page shows what Spark says of itself."""
    with chromium() as browser:
        page = browser.new_page()
        sign_in(page, broker)
        page.get_by_role("link", name="Operations").click()
        fact = page.locator(".facts div").filter(has=page.get_by_text("Spark", exact=True))
        expect(fact).to_contain_text(re.compile(r"batch \d+ had \d+ documents? in .* processed"))
        expect(page.locator(".chart").filter(has_text="Spark’s batch")).to_contain_text("addBatch")


def test_subscriptions_change_and_a_jvm_dies_while_documents_flow(tmp_path: Path) -> None:
    stop = threading.Event()
    count = 0

    def flow(broker: Process) -> None:
        nonlocal count
        while not stop.is_set():
            broker.publish(f"<order><part>{count + 1}</part></order>")
            count += 1
            pause(0.05)  # Spark takes long to start; all that comes meanwhile is to be matched

    def matched(broker: Process, number: int) -> None:
        until(lambda: broker.status()["intake"]["applied"] >= number)

    def parts(broker: Process, id: str) -> list[int]:
        return sorted(int(match["values"]["p"][0]) for match in broker.all_matches(id))

    text = ORDERS.partition(": ")[2]
    with Process(tmp_path / "state", "--pipeline", "spark", "--master", "local[1]") as broker:
        (early,) = broker.subscribe(f"early: {text}")
        publisher = threading.Thread(target=flow, args=(broker,))
        publisher.start()
        matched(broker, 20)
        (late,) = broker.subscribe(f"late: {text}")
        matched(broker, count + 20)
        paused = broker.client.post("/v1/subscriptions/early/pause").json()

        until(lambda: (broker.status()["pipeline"]["spark"] or {}).get("read"))
        before = broker.status()["pipeline"]
        spark = before["spark"]
        if CHROMIUM is not None:
            look_at_operations(broker)
        assert spark["rows"] > 0
        assert 0 < spark["read"] <= count
        assert spark["waiting"] < count
        assert spark["phases"]["triggerExecution"] >= spark["phases"]["addBatch"] > 0
        jvm = java(broker)
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        until(lambda: broker.status()["pipeline"]["failure"] is not None)
        ready = broker.client.get("/health/ready")
        assert ready.status_code == 503
        assert "pipeline-failing" in ready.text
        matched(broker, count + 20)
        after: dict[str, Any] = broker.status()["pipeline"]
        assert after["restarts"] > before["restarts"]
        until(lambda: broker.status()["pipeline"]["spark"]["batch"] > spark["batch"])
        until(lambda: broker.client.get("/health/ready").status_code == 200)

        resumed = broker.client.post("/v1/subscriptions/early/resume").json()
        matched(broker, count + 20)
        stop.set()
        publisher.join()
        matched(broker, count)
        until(lambda: broker.status()["engine"]["outbox"] == 0)
        assert early["first_doc"] == 1
        assert 20 < late["first_doc"] < paused["gaps"][0]["first_doc"]
        gap = resumed["gaps"][0]
        assert gap["first_doc"] == paused["gaps"][0]["first_doc"] < gap["to_doc"]
        assert parts(broker, "late") == list(range(late["first_doc"], count + 1))
        seen = [*range(1, gap["first_doc"]), *range(gap["to_doc"], count + 1)]
        assert parts(broker, "early") == seen
        assert broker.terminate() == 0
    with Process(tmp_path / "state", "--pipeline", "local") as broker:  # the other one goes on
        broker.publish(f"<order><part>{count + 1}</part></order>")
        until(lambda: parts(broker, "late")[-1] == count + 1)
        assert broker.terminate() == 0


POISONED = """
import sys
from pathlib import Path
from broker.join.work import Cancelled
from broker.text import logs
from broker.service.service import Service
from tests.service.data import ORDERS, order, settings
from tests.waiting import until

logs.configure("info", "json")
service = Service(settings(Path(sys.argv[1]), pipeline={"kind": "spark", "master": "local[1]"}))
service.start()
engine = service.engine
apply = engine.apply

stopped = []

def failing(arrivals, *more, **named):
    if not stopped and any(a.id == "d" for a in arrivals.documents):
        stopped.append(arrivals)
        raise Cancelled("another operation came first")
    if any(a.id == "bad" and a.error is None for a in arrivals.documents):
        raise ZeroDivisionError("of something")
    return apply(arrivals, *more, **named)

engine.apply = failing
service.subscriptions.subscribe(ORDERS)
last = service.intake.publish("S", [order(n, id=n) for n in ("a", "b", "bad", "c")]).last
until(lambda: service.figures().spool.applied >= last)
for id in "de":
    last = service.intake.publish("S", [order(id, id=id)]).last
    until(lambda: service.figures().spool.applied >= last)
until(lambda: len(service.mailbox.matches()) == 5)
print(*[each.match.documents[0].id for each in service.mailbox.matches()])
print(*[f"{letter.id}: {letter.reason}" for letter in service.letters.page()])
pipeline = service.figures().pipeline
print(pipeline.poisoned, pipeline.restarts, service.stop())
"""


def test_a_document_at_which_the_engine_fails_is_kept_aside_alone(tmp_path: Path) -> None:
    """In a process of its own, since a process has one session of Spark. A search that was stopped for
    others before is begun again, and Spark is not."""
    result = subprocess.run(
        [sys.executable, "-c", POISONED, str(tmp_path / "state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "a b c d e",
        "bad: the engine failed at it: ZeroDivisionError: of something",
        "1 1 True",
    ], result.stderr
