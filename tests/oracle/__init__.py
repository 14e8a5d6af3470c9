"""The brute-force oracle of the whole system, and the generator of its cases."""
