"""What all parts of the service stand on: the files of a state, its errors, its answers."""
