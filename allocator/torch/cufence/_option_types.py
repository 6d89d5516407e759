"""The keywords of enable(), for type checkers. Made by docs/options.py of the table of options."""

from __future__ import annotations

from os import PathLike
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    uaf: Literal["off", "adaptive", "strict"]
    align: int | str
    side: Literal["end", "start", "alternate"]
    on_fault: str
    guard: int | str
    remember: int | str
    stacks: bool | Literal["on", "python", "off"]
    streams: bool | Literal["off", "on", "on+host"]
    slack: bool | Literal["on", "off"]
    fill: str
    leaks: bool | Literal["on", "off"]
    wait_ms: int | str
    explain: Literal["auto", "off", "dump", "rerun"]
    stuck: int | str
    peers: bool | Literal["auto", "on", "off"]
    ipc: Literal["refuse", "driver"]
    skip: str
    small: Literal["auto", "map", "pack"]
    say: Literal["normal", "quiet", "verbose"]
    log: str | PathLike[str]
    json: str | PathLike[str]
    known: str | PathLike[str]
    keep: str | PathLike[str]
    save_values: str
    values: str
    nan: str
