"""Converts keyword arguments to the option string."""

from __future__ import annotations

import unittest
from pathlib import Path

import standin  # noqa: F401, puts the package on the path

from cufence._options import option_string, pairs


class OptionString(unittest.TestCase):
    def test_values(self) -> None:
        for options, expected in (
            ({}, ""),
            ({"uaf": "strict"}, "uaf=strict"),
            ({"slack": True, "leaks": False}, "leaks=off,slack=on"),
            ({"align": 16}, "align=16"),
            ({"guard": "128M", "align": "auto"}, "align=auto,guard=128M"),
            ({"log": Path("reports/%p.txt")}, "log=reports/%p.txt"),
        ):
            self.assertEqual(option_string(options), expected)

    def test_order_does_not_matter(self) -> None:
        self.assertEqual(option_string({"a": 1, "b": 2}), option_string({"b": 2, "a": 1}))

    def test_and_back(self) -> None:
        for text, expected in (
            ("", {}),
            ("align=16,uaf=strict", {"align": "16", "uaf": "strict"}),
            (" uaf = off ,log=a=b, uaf=strict, ", {"uaf": "strict", "log": "a=b"}),
        ):
            self.assertEqual(pairs(text), expected)

    def test_refused(self) -> None:
        for value, message in (
            (None, r"option uaf: None is a NoneType; give a string, a whole number or a bool"),
            (1.5, r"option uaf: 1\.5 is a float"),
            (["strict"], r"is a list"),
            ("off,slack=on", r"option uaf: 'off,slack=on' holds ','"),
            ("a\0b", r"holds '\\x00'"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                option_string({"uaf": value})
