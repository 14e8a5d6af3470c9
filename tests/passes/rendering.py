"""What comes out of each pass as text, without ids, costs and times of the clock."""

from __future__ import annotations

from collections.abc import Callable

import xscl
from broker.explain import syntax_tree
from xscl.syntax.printer import format_file


def printed(text: str) -> str:
    """The canonical text; it is read back as the same tree."""
    file = xscl.parse(text)
    canonical = format_file(file)
    assert xscl.parse(canonical) == file
    assert format_file(xscl.parse(canonical)) == canonical
    return canonical


def tree(text: str) -> str:
    """The syntax tree of each query."""
    return "\n".join(syntax_tree(statement) for statement in xscl.parse(text).statements)


def checked(text: str) -> str:
    """Each query as it is known from then on, and the warnings."""
    program = xscl.check([xscl.parse(text)])
    warnings = [f"warning[{each.code}] {each.message}" for each in program.warnings]
    return "\n".join([*(f"{query.id} is {query.text}" for query in program.queries), *warnings])


PASSES: dict[str, Callable[[str], str]] = {
    "print": printed,
    "parse": tree,
    "check": checked,
}
"""By the name of the file of pairs, in the order in which a query goes through them."""
