"""Event patterns, Part 2 of the language: what did not come, what came again, what came next.

    plan.py        a query: units, items, groups, absences, and where each conjunct is asked
    values.py      conjuncts and expressions over the documents of a match, compiled
    instances.py   what comes in: documents as blocks take them; matches as they are put together
    timing.py      order, windows and deadlines of a match; when it is decided
    unit.py        chooses single items on arrival, and settles what has to wait
    groups.py      fills groups
    soonest.py     NEXT and FOLD
    runs.py        SKIP TILL NEXT MATCH and contiguity
    standing.py    a registered pattern: its watermark, and which matches it publishes
    standings.py   all of them: rows in, decided matches out, and what a restart needs

A block of a pattern is a query of one block for stage 1 and the join, shared like any other, so
that nothing here parses documents or walks through them.
"""
