"""Creates a state with the present version of the program: see README.md."""

from tests.states.keep import main

main()
