"""Cycles among derived streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def find_cycles(reads: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """The cycles that a depth-first search closes, each as the streams along it.

    `reads` maps a derived stream to the streams that its query reads; names that are no key are
    base streams. Each stream is in at most one of the cycles returned; without cycles the result is
    empty. Linear in the number of streams and readings, and without recursion.
    """
    done: set[str] = set()
    cycles: list[tuple[str, ...]] = []
    for start in reads:
        if start in done:
            continue
        path = [start]
        position = {start: 0}
        pending = [iter(sorted(reads[start]))]
        while path:
            stream = next(pending[-1], None)
            if stream is None:
                pending.pop()
                last = path.pop()
                del position[last]
                done.add(last)
            elif stream in position:
                cycle = path[position[stream] :]
                if done.isdisjoint(cycle):
                    cycles.append(tuple(cycle))
                    done.update(cycle)
            elif stream in reads and stream not in done:
                position[stream] = len(path)
                path.append(stream)
                pending.append(iter(sorted(reads[stream])))
    return cycles
