"""Text for people and programs: formats of matches, units, safe printing, logs."""
