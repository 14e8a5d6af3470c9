"""The basis of all parts of the service: the files of a state, errors, arguments and results."""
