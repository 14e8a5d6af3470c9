"""A second oracle: queries translated to XQuery and evaluated by Saxon."""
