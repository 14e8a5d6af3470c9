"""What is said about queries that are right, but may never match.

In: a checked program. Out: its warnings, and those about paths that feed items or results of other
queries do not have.
"""

from __future__ import annotations

import xscl
from feeds.vocabulary import ATTRIBUTES, CHILDREN, INSTEAD, ROOTS
from xscl.check.known import Known, path_warnings

_MOST = 1_000
"""Queries of a program that are looked at; those of more were made by a program."""

_TEXT = Known("this element of feed items has")
_ITEM = Known("feed items have", dict.fromkeys(CHILDREN, _TEXT), ATTRIBUTES, INSTEAD)
_FEEDS = Known("the documents of feeds", {"item": _ITEM}, frozenset(), ROOTS)


def warnings(program: xscl.Program) -> tuple[xscl.Diagnostic, ...]:
    """The warnings of a program, and those about its paths."""
    if len(program.queries) > _MOST:
        return program.warnings
    return (*program.warnings, *path_warnings(program, _FEEDS))
