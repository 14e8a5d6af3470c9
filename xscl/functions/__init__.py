"""The functions of the language: `table` has them all."""
