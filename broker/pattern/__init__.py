"""Event patterns, Part 2 of the language: what did not come, what came again, what came next.

    compiling.py   makes a plan of a query; its variants are those of `variants.py`
    plan.py        a query: units, items, groups, absences
    placing.py     where each conjunct of a unit is asked
    equalities.py  the classes of variables that conjuncts make equal
    values.py      conjuncts and expressions over the documents of a match, compiled
    instances.py   what comes in: documents as blocks take them; matches as they are put together
    timing.py      order, windows and deadlines of a match; when it is decided

    unit.py        the matches of a unit, by these:
    choices.py       chooses single items, when the last of them arrives
    candidates.py    such a choice, and the match that it becomes with its groups filled
    groups.py        fills groups
    absences.py      what a NOT looks for
    deferred.py      the choices that wait for groups or absences, by `deadlines.py`
    free_groups.py   groups in every combination
    alone.py         a group that is the whole pattern
    sources.py     what fills an item: a block, a unit, or
    soonest.py     NEXT and FOLD, whose matches are found by `seekers.py`
    runs.py        SKIP TILL NEXT MATCH and contiguity, whose runs are in `live_runs.py`
    run_conjuncts.py what is asked of them

    in_order       patterns that many queries share: NEXT, FOLD, NOT and lists of blocks
    standing.py    a registered pattern: its watermark, and which matches it publishes
    published.py   a match as it is published: what tells it apart, and its place among others
    keeping.py     what looks at several: NON OVERLAPPING, ONE PER START, and the windows of OVER
    trace.py       what stood in the way of matches, noted where it is decided
    reading.py, answers.py, growth.py   what a plan reads, when it answers, what it costs

All registered patterns are in `broker/standing`.

A block of a pattern is a query of one block for stage 1 and the join, shared like any other, so
that nothing here parses documents or walks through them.
"""
