"""The keywords of enable(), for type checkers. Made by docs/options.py of the table of options."""

from __future__ import annotations

from os import PathLike
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    uaf: Literal["off", "adaptive", "strict"]
    align: int | str
    side: Literal["end", "start", "alternate"]
    on_fault: Literal["error", "abort", "continue"]
    exitcode: int | str
    max_reports: int | str
    guard: int | str
    remember: int | str
    stacks: bool | Literal["on", "python", "off"]
    streams: bool | Literal["off", "on", "on+host"]
    slack: bool | Literal["on", "off"]
    fill: str
    wait_ms: int | str
    explain: Literal["auto", "off", "dump", "rerun"]
    peers: bool | Literal["auto", "on", "off"]
    ipc: Literal["refuse", "driver"]
    skip: str
    small: Literal["auto", "map", "pack"]
    fallback: bool | Literal["on", "off"]
    live: str
    say: Literal["normal", "quiet", "verbose"]
    log: str | PathLike[str]
    json: str | PathLike[str]
    known: str | PathLike[str]
    keep: str | PathLike[str]
    save_max: int | str
    save_values: str
    every: int | str
    values: str
    nan: Literal["off", "report", "stop", "report+inf", "stop+inf"]
    graphs: bool | Literal["on", "off"]
