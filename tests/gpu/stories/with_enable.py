"""Calls cufence.enable() and then runs a story as `python STORY ...` would: with_enable.py key=value,... STORY [ARGUMENT...]"""

import runpy
import sys

import cufence

options, story = sys.argv[1:3]
cufence.enable(**dict(pair.split("=", 1) for pair in options.split(",") if pair))
sys.argv = sys.argv[2:]
runpy.run_path(story, run_name="__main__")
