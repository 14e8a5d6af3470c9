from __future__ import annotations

import signal
import threading
from collections import defaultdict
from collections.abc import Callable

from feeds.host_pool import HostPool
from tests.waiting import PATIENCE, pause, until


def test_jobs_of_a_host_run_in_order_and_one_at_a_time() -> None:
    crew: HostPool[tuple[str, int]] = HostPool(4, "test")
    running: defaultdict[str, int] = defaultdict(int)
    lock = threading.Lock()

    def job(host: str, number: int) -> Callable[[], tuple[str, int]]:
        def run() -> tuple[str, int]:
            with lock:
                running[host] += 1
                assert running[host] == 1
                assert sum(running.values()) <= 4
            pause(0.001)
            with lock:
                running[host] -= 1
            return host, number

        return run

    for number in range(50):
        for host in "abcdefgh":
            crew.submit(host, job(host, number))
    done: defaultdict[str, list[int]] = defaultdict(list)
    for _ in range(400):
        result = crew.next(PATIENCE)
        assert result is not None
        done[result[0]].append(result[1])
    assert dict(done) == {host: list(range(50)) for host in "abcdefgh"}
    assert crew.next(0) is None
    crew.close()


def test_threads_start_when_needed_and_no_more_than_allowed() -> None:
    crew: HostPool[int] = HostPool(3, "counted")

    def threads() -> int:
        return sum(thread.name.startswith("counted-") for thread in threading.enumerate())

    assert threads() == 0
    crew.submit("a", lambda: 1)
    assert crew.next(PATIENCE) == 1
    assert threads() == 1
    gate = threading.Event()
    for host in range(1000):
        crew.submit(str(host), lambda: int(gate.wait(PATIENCE)))
    assert threads() == 3
    gate.set()
    assert sum(crew.next(PATIENCE) or 0 for _ in range(1000)) == 1000
    crew.close()


def test_results_that_nobody_takes_stop_the_work() -> None:
    crew: HostPool[int] = HostPool(2, "test")
    done: list[int] = []

    def job(number: int) -> Callable[[], int]:
        def run() -> int:
            done.append(number)
            return number

        return run

    for number in range(100):
        crew.submit(str(number), job(number))
    until(lambda: len(done) >= 6)
    pause(0.3)  # more would come now
    assert len(done) <= 6  # four results wait, and two are at hand
    taken = [crew.next(PATIENCE) for _ in range(100)]
    assert {*taken} == {*range(100)}
    crew.close()


def test_closing_ends_the_threads_and_drops_what_waits() -> None:
    crew: HostPool[None] = HostPool(2, "closing")
    gate, done = threading.Event(), list[bool]()
    for _ in range(10):
        crew.submit("a", lambda: done.append(gate.wait(PATIENCE)))
    crew.close()
    gate.set()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("closing-")])
    assert len(done) <= 1


def test_a_signal_that_ends_no_wait_is_handled_while_a_result_is_awaited() -> None:
    """One that comes just before the wait begins does not end it, like one that another thread
    gets."""
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    crew: HostPool[bool] = HostPool(1, "signalled")

    def job() -> bool:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        return handled.wait(PATIENCE)

    try:
        crew.submit("a", job)
        assert crew.next() is True
    finally:
        crew.close()
        signal.signal(signal.SIGUSR1, before)
