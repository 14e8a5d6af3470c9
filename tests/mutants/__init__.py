"""Mutation testing: small mistakes are made in a copy of the code, and tests should fail.

    python -m tests.mutants --seed 20261122 --count 200

`operators` says which mistakes there are and draws some of them, `reach` knows which tests execute a
line, `running` puts them to a mutant, those that take the least time first. A mutant that lives is a
hole in the tests, or changes nothing that is promised: `tests/MUTANTS.md` says which.
"""
