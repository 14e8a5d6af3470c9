"""The oracle of Part 2: event patterns by brute force, written from the language page.

`shape` takes a pattern apart, by what `naming` says that it binds; `instances` finds what it matches,
with `groups`, `absences` and `runs`; `deciding` says when a match is decided, `standing` publishes it
once, `output` writes it.
"""
