"""The lock that is acquired in the order of the requests for it."""

from __future__ import annotations

import signal
import threading

import pytest

from feeds.fair_lock import FairLock
from tests.waiting import PATIENCE, until


def waiting(lock: FairLock, count: int) -> None:
    """Until so many threads wait for the lock."""
    until(lambda: len(lock._queue) >= count)


def test_it_goes_to_who_waits_longest_and_not_to_who_lets_it_go() -> None:
    lock = FairLock()
    order: list[str] = []

    def turn(name: str) -> None:
        with lock:
            order.append(name)

    lock.acquire()
    threads = [threading.Thread(target=turn, args=(name,)) for name in ("a", "b", "c")]
    for count, thread in enumerate(threads, 1):
        thread.start()
        waiting(lock, count)
    lock.release()
    with lock:  # asked for last, so it is had last
        order.append("d")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "d"]


def test_one_thread_may_hold_it_several_times() -> None:
    lock = FairLock()
    got: list[bool] = []
    with lock, lock:
        lock.acquire()
        lock.release()
        other = threading.Thread(target=lambda: got.append(lock.acquire(0.01)))
        other.start()
        other.join()
    assert got == [False]
    other = threading.Thread(target=lambda: got.append(lock.acquire(PATIENCE)))
    other.start()
    other.join()
    assert got == [False, True]


def test_who_gives_up_loses_its_turn_only() -> None:
    lock = FairLock()
    order: list[str] = []

    def patient() -> None:
        with lock:
            order.append("patient")

    def hasty() -> None:
        if lock.acquire(0.5):
            order.append("hasty")

    with lock:
        giving_up = threading.Thread(target=hasty)
        giving_up.start()
        thread = threading.Thread(target=patient)
        thread.start()
        giving_up.join()
        waiting(lock, 1)
    thread.join()
    assert order == ["patient"]
    with lock.within(PATIENCE) as got:
        assert got


def test_many_threads_count_together() -> None:
    lock = FairLock()
    total = 0

    def count() -> None:
        nonlocal total
        for _ in range(500):
            with lock:
                before = total
                total = before + 1

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 4_000


def test_who_is_interrupted_gives_up_its_turn() -> None:
    lock = FairLock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(PATIENCE)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(PATIENCE)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        done.set()
        holder.join()
        got: list[bool] = []
        other = threading.Thread(target=lambda: got.append(lock.acquire(PATIENCE)))
        other.start()
        other.join()
        assert got == [True]
    finally:
        done.set()
        signal.signal(signal.SIGALRM, before)
