"""A second witness: queries translated to XQuery and answered by Saxon."""
