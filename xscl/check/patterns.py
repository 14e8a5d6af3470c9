"""Static checks of Part 2: which queries are event patterns, and all that is wrong in one.

In: a query whose variables are all bound. Out: errors and warnings. `structure` walks through the
pattern, `strategies` asks about the whole of it, and `scopes` about the variables of predicates.
"""

from __future__ import annotations

from xscl import ast
from xscl.check.findings import Findings
from xscl.check.scopes import check_scopes
from xscl.check.shapes import parts_of
from xscl.check.sites import sites
from xscl.check.strategies import Strategies
from xscl.check.structure import Structure
from xscl.errors import Diagnostic
from xscl.functions.elements import DURATION, ELEMENT_FUNCTIONS
from xscl.kinds import nested


def check_pattern(query: ast.Query) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The errors and the warnings of a query for which `is_pattern` holds."""
    found = Findings()
    Structure(query, found)
    Strategies(query, found)
    errors = found.errors or check_scopes(query)
    return errors, [] if errors else found.warnings


def is_pattern(query: ast.Query) -> bool:
    """Whether a query uses anything of Part 2; those nested in FROM do not count."""
    clauses = (query.partition, query.strategy, query.wait, query.over, query.at_end)
    return any(clauses) or _extends(query.pattern) or _calls(query)


def holds_pattern(query: ast.Query) -> bool:
    """Whether a query, or one in its FROM, uses anything of Part 2."""
    if is_pattern(query):
        return True
    stack = [query.pattern]
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, ast.Nested) and holds_pattern(pattern.query):
            return True
        stack += parts_of(pattern)
    return False


def _extends(pattern: ast.Pattern) -> bool:
    match pattern:
        case ast.Block() | ast.Nested():
            return False
        case ast.Join():
            if pattern.kind == "NEXT" or pattern.after:
                return True
            return _extends(pattern.left) or _extends(pattern.right)
    return True


def _calls(query: ast.Query) -> bool:
    """Whether predicates or SELECT call functions of Part 2."""
    return any(
        isinstance(part, ast.Call) and (part.name in ELEMENT_FUNCTIONS or part.name == DURATION)
        for site in sites(query)
        for part in nested(site.expr)
    )
