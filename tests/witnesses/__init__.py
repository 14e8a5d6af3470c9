"""What others found in their data with event patterns, by their own engines or by hand-written SQL."""
