"""Tests of the language: parsing, printing, checking, and error messages."""
