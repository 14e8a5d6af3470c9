"""Canonical text: it parses to the same tree, and equal trees have the same text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.language import strategies
from xscl import ast, format_file, parse
from xscl.syntax.printer import format_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (5.0, "5"),
        (-2.5, "-2.5"),
        (5e-324, "0." + "0" * 323 + "5"),
    ],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert format_number(value) == text
    assert float(text) == value


@given(strategies.files)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_printed_is_read_back(file: ast.File) -> None:
    printed = format_file(file)
    again = parse(printed)
    assert again == file
    assert format_file(again) == printed
