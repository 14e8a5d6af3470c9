"""The tests, a package so that `python -m tests.properties.deep` and pytest name modules alike."""
