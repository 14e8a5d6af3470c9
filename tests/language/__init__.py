"""Tests of the language: reading, printing, checking, and what is said when something is wrong."""
