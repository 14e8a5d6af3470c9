"""Patterns that are decided in the order of time, for many queries of one shape.

    forms.py       which patterns these are, and what a plan becomes
    asking.py      conjuncts, split into equalities, bounds and what else is asked of a pair
    held.py        what waits: found by the value of an equality and by a bound, not scanned
    following.py   NEXT
    iterating.py   FOLD
    lacking.py     NOT between two blocks, and at the end
    spending.py    how much a query may try
    standing.py    a registered pattern of such a form, and what it publishes

A *form* is made once for all queries that differ in constants of their blocks. A query of it is a
row of parameters, which stage 1 finds by the constants; what it has of its own is what waits.
Everything else is matched by `broker/pattern/standing.py`, with equal results.
"""
