"""The brute-force witness of the whole system, and the generator of what it is asked."""
