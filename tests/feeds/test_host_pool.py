from __future__ import annotations

import signal
import threading
from collections import defaultdict
from collections.abc import Callable

from feeds.host_pool import HostPool
from tests.waiting import PATIENCE, pause, until


def test_jobs_of_a_host_run_in_order_and_one_at_a_time() -> None:
    pool: HostPool[tuple[str, int]] = HostPool(4, "test")
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
            pool.submit(host, job(host, number))
    done: defaultdict[str, list[int]] = defaultdict(list)
    for _ in range(400):
        result = pool.next(PATIENCE)
        assert result is not None
        done[result[0]].append(result[1])
    assert dict(done) == {host: list(range(50)) for host in "abcdefgh"}
    assert pool.next(0) is None
    pool.close()


def test_threads_start_when_needed_and_no_more_than_allowed() -> None:
    pool: HostPool[int] = HostPool(3, "counted")

    def threads() -> int:
        return sum(thread.name.startswith("counted-") for thread in threading.enumerate())

    assert threads() == 0
    pool.submit("a", lambda: 1)
    assert pool.next(PATIENCE) == 1
    assert threads() == 1
    gate = threading.Event()
    for host in range(1000):
        pool.submit(str(host), lambda: int(gate.wait(PATIENCE)))
    assert threads() == 3
    gate.set()
    assert sum(pool.next(PATIENCE) or 0 for _ in range(1000)) == 1000
    pool.close()


def test_results_that_nobody_takes_stop_the_work() -> None:
    pool: HostPool[int] = HostPool(2, "test")
    done: list[int] = []

    def job(number: int) -> Callable[[], int]:
        def run() -> int:
            done.append(number)
            return number

        return run

    for number in range(100):
        pool.submit(str(number), job(number))
    until(lambda: len(done) >= 6)
    pause(0.3)  # more would come now
    assert len(done) <= 6  # four results wait, and two are at hand
    taken = [pool.next(PATIENCE) for _ in range(100)]
    assert {*taken} == {*range(100)}
    pool.close()


def test_closing_ends_the_threads_and_drops_what_waits() -> None:
    pool: HostPool[None] = HostPool(2, "closing")
    gate, done = threading.Event(), list[bool]()
    for _ in range(10):
        pool.submit("a", lambda: done.append(gate.wait(PATIENCE)))
    pool.close()
    gate.set()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("closing-")])
    assert len(done) <= 1


def test_a_signal_that_ends_no_wait_is_handled_while_a_result_is_awaited() -> None:
    """One that comes just before the wait begins does not end it, like one that another thread
    gets."""
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    pool: HostPool[bool] = HostPool(1, "signalled")

    def job() -> bool:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        return handled.wait(PATIENCE)

    try:
        pool.submit("a", job)
        assert pool.next() is True
    finally:
        pool.close()
        signal.signal(signal.SIGUSR1, before)
