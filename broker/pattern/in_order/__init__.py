"""Patterns that are decided in the order of time, or as documents come, for many queries of one
shape.

    forms.py       which patterns these are, and what a plan becomes
    chain_forms.py the same of NEXT, and of chains of it
    list_forms.py  the same of lists of blocks
    asking.py      conjuncts, split into equalities, bounds and what else is asked of a pair
    events.py      rows as the matchers take them, and the candidates that they find
    held.py        what waits: found by the value of an equality and by a bound, not scanned
    owned.py       what waits for all queries of a form
    partitions.py  the same by what it has in PARTITION BY
    ahead.py       what waits for its time, in the order of time
    deferred.py    what comes to many queries before their last block, noted once
    noted.py       the same in columns, where no value ties the blocks; batches are sifted
    rising.py      which documents of FOLD may complete a match; the others are noted, too
    log.py         what is noted
    prefixes.py    what waits before the last block, once for queries that take the same there
    takers.py      which queries take what, by numbers
    following.py   NEXT, and chains of it; seeking.py: what waits at their links
    iterating.py   FOLD
    common.py      iterations that take the same documents, kept once
    lacking.py     NOT between two blocks, and at the end
    group_forms.py, grouping.py  groups between two blocks, or at the end
    run_forms.py   lists that runs take: SKIP TILL NEXT MATCH and contiguity
    run_steps.py   which documents a run may take, and what is asked then, by `run_checks.py`
    running.py     the runs of all queries of a form
    lists.py       lists of blocks, decided when their last document comes
    spending.py    how much a query may try
    shared.py      what the queries of a form share
    standing.py    the queries of a form that have one watermark, and what they publish

A *form* is made once for all queries that differ in constants of their blocks. A query of it is a
row of parameters, which stage 1 finds by the constants. One matcher takes the rows of all of them,
read once; what waits stands in one dictionary, by query and value. So a query to which nothing
comes costs nothing, and a match is made of a candidate when it is published.
Everything else is matched by `broker/pattern/standing.py`, with equal results.
"""
