"""Adds to a report what Python knows of its buffers: when an exception ends the program or a thread, when a test fails, when
the program asks for the report, and at the latest at exit. Never raises.

The report itself is printed as soon as the fault is read, by a thread that must not run Python.
"""

from __future__ import annotations

import re
import sys
import textwrap
import threading

from . import _library

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

_COLUMNS = 100
_FRAMES_MOST = 64
_INNER_FOLDER = __file__.rpartition("/")[0] + "/"

_lock = threading.RLock()  # guards what follows, and is held during a lookup
_told: dict[tuple[Any, ...], dict[str, Any]] = {}  # names of each report that was looked at
_said: set[str] = set()  # the lines of each finding, without numbers: repetitions of a finding are not printed either
_is_installed = False


# ---- which frames ----


def _of_traceback(traceback: TracebackType | None) -> list[FrameType]:
    """Returns the frames, innermost first."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return frames[::-1][:_FRAMES_MOST]


def _of_caller() -> list[FrameType]:
    """Returns the frames of the exception that is being handled, then those that called this package."""
    frames = _of_traceback(sys.exc_info()[2])
    frame: FrameType | None = sys._getframe()
    while frame is not None and len(frames) < _FRAMES_MOST:
        if not frame.f_code.co_filename.startswith(_INNER_FOLDER) and frame not in frames:
            frames.append(frame)
        frame = frame.f_back
    return frames


# ---- as text ----


def _shape(tensor: dict[str, Any]) -> str:
    return f"{tensor['dtype']}{tensor['shape']}"


def _name(name: dict[str, Any]) -> str:
    where = name.get("where")
    if name["what"] == "local":
        return f"{name['name']} in {where}"
    if not where:
        return f"{name['name']} ({name['what']})"
    return f"{name['name']} ({name['what']} {'of' if name['what'] == 'optimizer state' else 'in'} {where})"


def _tensor(tensor: dict[str, Any]) -> str:
    names = " = ".join(_name(name) for name in tensor["names"])
    text = f"{names}, {_shape(tensor)}" if names else f"a tensor without a name, {_shape(tensor)}"
    if "index" not in tensor:
        return text
    element = f"element {tensor['index']}"
    return f"{text}; the address is {element if tensor['inside'] else f'where {element} would be'}"


def _argument(argument: dict[str, Any]) -> str | None:
    if "buffer" in argument:
        offset = f" +{argument['offset']}" if argument["offset"] else ""
        return f"{argument['name']} = buffer #{argument['buffer']}{offset}"
    value = argument.get("value", "a tensor map" if argument["type"] == "nvTmaDesc" else None)
    return f"{argument['name']} = {value}" if value else None  # a structure's bytes tell nothing


def sentences(report: dict[str, Any], names: dict[str, Any]) -> list[str]:
    """Returns one text for each buffer, and one for the kernel's arguments."""
    said = []
    for buffer in names.get("buffers", []):
        for at, tensor in enumerate(buffer["tensors"]):
            said.append(f"buffer #{buffer['buffer']} is {'also ' if at else ''}{_tensor(tensor)}")
    arguments = [text for text in map(_argument, names.get("arguments", [])) if text]
    constants = [f"{name} = {text} (constexpr)" for name, text in names.get("constexprs", {}).items()]
    if arguments or constants:
        name = report.get("kernel", {}).get("name", "the kernel").partition("(")[0].partition("[abi:")[0]  # numba's is as in C++
        said.append(f"arguments of {name}: {', '.join(arguments + constants)}")
    return said


def text_of(report: dict[str, Any], names: dict[str, Any]) -> str:
    """Returns the lines that follow a report."""
    prefix = f"=={report['process']['pid']}== "
    wrapper = textwrap.TextWrapper(_COLUMNS - len(prefix), subsequent_indent=" " * len("cufence: "))
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    lines = []
    for sentence in sentences(report, names):
        lines += [prefix + line for line in wrapper.wrap(f"cufence: {sentence}")]
    return "".join(line + "\n" for line in lines)


# ---- looking up ----


def names_for(report: dict[str, Any], frames: list[FrameType]) -> dict[str, Any]:
    """Returns what is known of a report, looked up once. Never raises."""
    try:
        key = (report["process"]["pid"], report.get("time"), report.get("headline"), report.get("address", {}).get("value"))
        with _lock:
            if key not in _told:
                from . import _names

                found = _names.look_up(report, frames)
                if not found.get("buffers") and not found.get("arguments"):
                    return found  # another moment may know more
                _told[key] = found
                _add(report, found)
            return _told[key]
    except Exception:
        import logging

        logging.getLogger("cufence").debug("the names of a report were not found", exc_info=True)
        return {}


def _add(report: dict[str, Any], found: dict[str, Any]) -> None:
    import json

    text = text_of(report, found)
    kernel = report.get("kernel", {})
    place = f"{report.get('kind')} {kernel.get('symbol')} {kernel.get('offset')} "
    finding = place + re.sub(r"#\d+|\[[\d, ]*\]", "", text)
    if not text or finding in _said:
        return
    _said.add(finding)
    of = {"process": {"pid": report["process"]["pid"]}, "time": report.get("time"), "headline": report.get("headline")}
    members = {"schema": report["schema"], "cufence": report.get("cufence", ""), "names_of": of, "names": found}
    record = json.dumps(members, separators=(",", ":")) + "\n"
    _library.load().cufence_torch_add(text.encode(errors="replace"), record.encode())


def _last() -> dict[str, Any] | None:
    library = _library.loaded()
    return _library.last_report() if library is not None and library.cufence_fault_count() else None


def for_caller(report: dict[str, Any]) -> dict[str, Any]:
    """Returns what is known, with the variables of the calling code."""
    return names_for(report, _of_caller())


def after(exception: BaseException | None, traceback: TracebackType | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Looks up the names for the last report, with the variables of the frames that an exception came through, and adds the
    first line to an exception about CUDA. Returns the report and the names, None if there is no report or nothing is known."""
    try:
        report = _last()
        names = names_for(report, _of_traceback(traceback)) if report is not None else {}
        if report is None or not names:
            return None
        if exception is not None and "CUDA" in str(exception):
            _add_note(exception, sentences(report, names))
        return report, names
    except Exception:
        return None


def _add_note(exception: BaseException, said: list[str]) -> None:
    note = f"cufence: {said[0]}" if said else None
    if note and hasattr(exception, "add_note") and note not in getattr(exception, "__notes__", []):
        exception.add_note(note)


# ---- hooks ----


def _after_and(before: Callable[..., Any]) -> Callable[..., Any]:
    def excepthook(*arguments: Any) -> None:
        """Its arguments are kind, value and traceback; those of threading's are one object, a tuple that begins with these."""
        _, exception, traceback, *_ = arguments if len(arguments) > 1 else arguments[0]
        after(exception, traceback)
        before(*arguments)

    return excepthook


def install() -> None:
    """Installs the hooks, once. A program that replaces sys.excepthook still gets the addition at exit."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    import atexit

    sys.excepthook = _after_and(sys.excepthook)
    threading.excepthook = _after_and(threading.excepthook)
    atexit.register(lambda: after(None, getattr(sys, "last_traceback", None)))
