"""Makes a state with the program that is checked out: see README.md."""

from tests.states.keep import main

main()
