"""Hints for users of other pattern languages: SASE, Cayuga, EPL, Flink and MATCH_RECOGNIZE.

In: a text and the place of an error. Out: a hint, if a form of another language stands there. As in
`foreign`, nothing here decides whether a text is accepted.
"""

from __future__ import annotations

import re

ELEMENTS = (
    "of a group's elements x alone is each one, prev(x) the one before it, first(x) and last(x) are"
    " the ends: x > prev(x), x > avg(x)"
)
MEMBERS = "a child is reached by x1/title"
_COUNTED = "how many elements a group has is count(x)"
_TIMES = (
    "a query sees no times: FOLLOWED BY orders documents, windows bound them, and duration() is the"
    " length of the match in seconds"
)
_WINDOW = "a window stands behind the pattern, WITHIN 10 min, or in braces: FOLLOWED BY {10 min}"
_LATER = "an absence for some time is S//a FOLLOWED BY {10 min} NOT S//b"
_NUMBERED = (
    "$1.price and $2.price are variables that blocks bind, [./price->p]; in FOLD the step before is"
    " prev(q)"
)
_ALL = "all of them in any order are S//a JOIN S//b, any of them S//a OR S//b"
_TUPLE = "that documents agree in a value is written PARTITION BY ./s"
_ROWS = "a match is one result, and SELECT says what is in it: SELECT first(x), last(x) FROM ..."
_WAIT = "how long late documents are waited for is written WAIT 5 min, behind WITHIN"
_LATEST = "a moving window stands behind the pattern: GROUP BY x OVER 5 min"
_RUNNING = (
    "leave it out: beside x itself an aggregate ranges over the elements before, otherwise over the"
    " whole group"
)
_UNTIL = "what ends a group follows it in the list: (S//b)+ FOLLOWED BY S//c"
_SKIPPED = "write USING NON OVERLAPPING or ONE PER START; how documents are skipped, SKIP TILL ..."
_QUANTIFIED = "a group stands in parentheses: (S//b){3}, (S//b){2,5}, one that may be absent {0,1}"
_BLOCK = "a block is S//a->x, and what comes after it FOLLOWED BY S//b"
_FILTERED = "a filter stands in its block, S//a[./price > 5], or in WHERE: (S//a->x WHERE x > 5)"
_METHODS = "a sequence is S//a FOLLOWED BY S//b, what comes next S//a NEXT S//b, a group (S//b)+"

#: Forms, the first that is found at the place of an error counts.
FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(form, re.IGNORECASE), hint)
    for form, hint in (
        (r"\btimer\s*:\s*interval\b", _LATER),
        (r"\b(?:timer|win)\s*:\s*\w+", _WINDOW),
        (r"\$\d*\s*\.\s*\w+", _NUMBERED),
        (r"(?:\bWHERE|\bAND)\s*\[[\s\w,@]*\]?", _TUPLE),
        (r"\[\s*RANGE\b|\bOVER\s+LAST\s+\d+", _LATEST),
        (r"\w\[\s*(?:\d+|\.\.|i\b|j\b|k\b|n\b|\w+\s*\.\s*LEN)", ELEMENTS),
        (r"\b(?:ANY|ALL)\s*\(", _ALL),
        (r"\bcount\s*\(\s*\*", _COUNTED),
        (r"\b(?:ONE|ALL)\s+ROWS?\s+PER\b", _ROWS),
        (r"\b(?:FINAL|RUNNING)\s+\w+\s*\(", _RUNNING),
        (r"\b(?:AFTER\s+MATCH\s+)?SKIP\s+(?:PAST|TO)\b|\bCONSUME\b", _SKIPPED),
        (r"\b(?:EMIT|LATENESS|WATERMARK|GRACE)\b", _WAIT),
        (r"\bMEASURES\b", _ROWS),
        (r"\bUNTIL\b", _UNTIL),
        (r"\b(?:OPTIONAL|EXACTLY|REPEAT|TIMES)\b\s*\w?", _QUANTIFIED),
        (r"\bFILTER\s*\{", _FILTERED),
        (r"\b(?:begin|followedBy(?:Any)?|notFollowedBy|oneOrMore)\s*\(", _METHODS),
        (r"\w\s*=\s*\w+\s*->", _BLOCK),
    )
)
_AROUND = 60
"""Characters on each side of an error in which a form is sought."""

_MEMBERS = {
    **dict.fromkeys(["last", "prev", "first", "previous"], ELEMENTS),
    **dict.fromkeys(["size", "count", "len", "length"], _COUNTED),
    **dict.fromkeys(["ts", "time", "timestamp", "rowtime"], _TIMES),
}

_MISSING = (
    "over the elements of a group there are count, sum, avg, min, max, first, last, and prev for"
    " the one before"
)
_DURATION = "the length of the match in seconds is duration(), that of x's document duration(x)"

#: Functions, in lower case.
FUNCTIONS = {
    **dict.fromkeys(["dur", "elapsed"], _DURATION),
    **dict.fromkeys(["size", "cnt"], _COUNTED),
    **dict.fromkeys(["next", "nth", "classifier", "match_number"], _MISSING),
    **dict.fromkeys(["stddev", "variance", "median", "percentile", "stdev"], _MISSING),
    **dict.fromkeys(["tumble", "hop", "session", "time", "length_batch"], _LATEST),
}

#: Names that stand for values elsewhere, in capitals.
VALUES = dict.fromkeys(["DUR", "DURATION"], _DURATION)

#: Units of windows that are no times, in small letters.
UNITS = dict.fromkeys(
    ["row", "rows", "event", "events", "tuple", "tuples", "item", "items", "documents"],
    "a window is a time, such as 10 min; a number of elements is that of a group: (S//a){10}",
)

#: Strategies as others write them, in capitals and with blanks.
STRATEGIES = {
    **dict.fromkeys(["SKIP TILL NEXT MATCH", "RELAXED"], "write SKIP TILL NEXT MATCH"),
    **dict.fromkeys(["SKIP TILL ANY MATCH"], "write SKIP TILL ANY MATCH"),
    **dict.fromkeys(["STRICT", "STRICT CONTIGUITY"], "write STRICT CONTIGUITY"),
    **dict.fromkeys(["PARTITION", "PARTITION CONTIGUITY"], "write PARTITION CONTIGUITY"),
    **dict.fromkeys(["NON OVERLAP", "NONOVERLAPPING"], "write NON OVERLAPPING"),
}


def form(text: str, start: int) -> str | None:
    """The hint for a form of another language that reaches over the place `start`, or ends or
    begins there."""
    low = max(0, start - _AROUND)
    near = text[low : start + _AROUND]
    at = start - low
    for pattern, hint in FORMS:
        for found in pattern.finditer(near):
            if found.start() <= at <= found.end():
                return hint
    return None


def member(name: str) -> str:
    """The hint for a name behind a variable and a point, as in `x.price`."""
    return _MEMBERS.get(name.lower(), MEMBERS)


def strategy(word: str) -> str | None:
    """The strategy that a word of another language means."""
    return STRATEGIES.get(word.upper().replace("_", " ").replace("-", " "))
