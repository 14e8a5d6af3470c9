"""The positions that the steps of a path may have on a label path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xscl.normal import ir
from xscl.stage1.filters import name_matches


def always(_step: int, _depth: int) -> bool:
    """For `positions` without filters."""
    return True


def positions(
    labels: Sequence[str],
    steps: Sequence[ir.Step],
    depth: int,
    passes: Callable[[int, int], bool] = always,
) -> set[int]:
    """The possible positions of step number `depth` on a label path at whose end the last step is.

    Position 0 is the document, position d the d-th label. `passes(i, d)` returns whether the
    filters of the i-th step (from 0) hold at position d. A forward pass finds the positions that
    prefixes of the steps can reach, a backward pass those from which the end can be reached: the
    time is linear in steps and labels, also if tags recur.
    """
    end = len(labels)
    forward: list[set[int]] = [{0}]
    for i, step in enumerate(steps):
        before = forward[-1]
        last = i == len(steps) - 1
        here: set[int] = set()
        if before:
            least = min(before)
            same = step.test.kind == "self"
            for d in range(least if same else least + 1, end + 1):
                if last and d != end:
                    continue
                if step.axis == "/" and d - 1 not in before:
                    continue
                if d > 0 and label_matches(labels[d - 1], step.test) and passes(i, d):
                    here.add(d)
        forward.append(here)
    backward = forward[-1]
    for i in range(len(steps) - 1, depth - 1, -1):
        step, before = steps[i], forward[i]
        if not backward:
            return set()
        if step.axis == "/":
            backward = {d for d in before if d + 1 in backward}
        else:
            most = max(backward) + (1 if step.test.kind == "self" else 0)
            backward = {d for d in before if d < most}
    return backward


def label_matches(label: str, test: ir.Test) -> bool:
    match test.kind:
        case "self":
            return True
        case "text":
            return label == "#text"
        case "attribute":
            return label[0] == "@" and name_matches(label[1:], test)
        case _:
            return label[0] not in "@#" and name_matches(label, test)
