"""The package without a library: its import, its names, and its agreement with the header."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import typing
import unittest
from pathlib import Path

import standin
from standin import COMMAND

import cufence
from cufence import _api, _library, _option_types
from cufence._options import option_string, pairs

HEADER = standin.HEADER.read_text()


def struct_fields(name: str) -> list[str]:
    """The fields of a struct in cufence.h, in order."""
    match = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", HEADER, re.DOTALL)
    assert match, name
    body = re.sub(r"/\*.*?\*/", "", match.group(1), flags=re.DOTALL)
    return re.findall(r"(\w+)(?:\[\d+\])?;", body)


def enum_values(name: str) -> dict[str, int]:
    match = re.search(rf"typedef enum {name} \{{(.*?)\}} {name};", HEADER, re.DOTALL)
    assert match, name
    return {key: int(value) for key, value in re.findall(r"(CUFENCE_\w+) = (\d+)", match.group(1))}


class Import(unittest.TestCase):
    def test_is_cheap(self) -> None:
        done = standin.run_python(
            """
            import sys
            before = set(sys.modules)
            import cufence
            assert not {"torch", "ctypes", "typing", "subprocess"} & (set(sys.modules) - before), sys.modules
            print(cufence.__version__)
            """
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(COMMAND.is_file(), "build first")
    def test_enable_is_typed(self) -> None:
        """Type checkers know each option, by a table that docs/options.py makes; editors show the same."""
        table = json.loads(subprocess.run([COMMAND, "options", "--json"], capture_output=True, check=True).stdout)
        self.assertEqual(set(_option_types.Options.__annotations__), {row["key"] for row in table})
        self.assertEqual(cufence.enable.__annotations__, {"options": "Unpack[Options]", "return": "None"})
        self.assertTrue((standin.PACKAGE / "cufence" / "py.typed").is_file())
        wanted = typing.get_type_hints(_option_types.Options)
        self.assertEqual(wanted["uaf"], typing.Literal["off", "adaptive", "strict"])
        self.assertEqual(wanted["slack"], bool | typing.Literal["on", "off"])

    def test_names(self) -> None:
        for name in cufence.__all__:
            self.assertIsNotNone(getattr(cufence, name), name)
            self.assertIn(name, dir(cufence))
        with self.assertRaisesRegex(AttributeError, "no attribute 'enabel'"):
            cufence.enabel  # noqa: B018


def thread_local_bytes(library: bytes) -> int:
    """Returns the thread-local storage of a 64-bit ELF file: the memory size of its PT_TLS (7) segment."""
    assert library[:6] == b"\x7fELF\x02\x01", library[:6]
    (start,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", library, start + i * size) for i in range(count)]
    return sum(header[6] for header in headers if header[0] == 7)


class Library(unittest.TestCase):
    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_takes_little_of_each_thread(self) -> None:
        # Libraries opened with dlopen share the surplus static TLS of glibc: 512 bytes by default
        # (glibc.rtld.optional_static_tls). If it is used up, a library cannot be opened.
        self.assertIn(thread_local_bytes(standin.LIBRARY.read_bytes()), range(1, 513))


class SameAsHeader(unittest.TestCase):
    def test_version(self) -> None:
        parts = [re.search(rf"CUFENCE_VERSION_{part} (\d+)", HEADER) for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(".".join(match.group(1) for match in parts if match), cufence.__version__)

    def test_structs(self) -> None:
        for structure, name in (
            (_library.Buffer, "cufence_buffer"),
            (_library.Description, "cufence_description"),
            (_library.Stats, "cufence_stats"),
            (_library.Unguarded, "cufence_unguarded"),
        ):
            self.assertEqual([field for field, *_ in structure._fields_], struct_fields(name), name)

    def test_places(self) -> None:
        values = enum_values("cufence_place")
        self.assertEqual(
            list(_api.PLACES),
            [key[len("CUFENCE_PLACE_") :].lower().replace("_", " ") for key in sorted(values, key=values.get)],
        )

    def test_statuses(self) -> None:
        values = enum_values("cufence_status")
        self.assertEqual(_library.OK, values["CUFENCE_OK"])
        for name in ("INVALID_ARGUMENT", "OPTION", "NOT_INITIALIZED", "ALREADY_INITIALIZED", "TIMEOUT"):
            self.assertEqual(getattr(_library, name), values[f"CUFENCE_ERROR_{name}"])

    def test_prototypes(self) -> None:
        declared = HEADER + (standin.PACKAGE / "torch.h").read_text()
        for name, (_, arguments) in _library.PROTOTYPES.items():
            match = re.search(rf"\b{name}\(([^)]*)\);", declared)
            assert match, f"{name} is not declared"
            count = 0 if match.group(1) == "void" else match.group(1).count(",") + 1
            self.assertEqual(len(arguments), count, name)


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class WithLibrary(unittest.TestCase):
    def test_what_a_program_may_do_besides(self) -> None:
        done = standin.run_python(
            """
            import cufence, signal
            from cufence import _library
            find = _library.find
            def interrupted():
                _library.find = find
                signal.raise_signal(signal.SIGUSR1)
                return find()
            _library.find = interrupted
            signal.signal(signal.SIGUSR1, lambda *_: cufence.unguarded())
            assert cufence.unguarded() == {}
            assert _library.load().cufence_init(b"") == 0
            assert cufence.wait_reports(float("inf"))
            import pickle
            error = pickle.loads(pickle.dumps(cufence.Error("no", 18)))  # as a pool of processes sends it
            assert (str(error), error.status) == ("no", 18)
            with cufence.label("file-\\udcff"):  # as of os.listdir()
                pass
            """
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class WithoutLibrary(unittest.TestCase):
    """No test here may open the library: labels stay in the code of programs that run without cufence."""

    def test_label_does_nothing(self) -> None:
        done = standin.run_python(
            """
            import cufence
            with cufence.label("a"), cufence.label("b"):
                pass
            @cufence.label("c")
            def work(depth):
                return depth if depth == 3 else work(depth + 1)
            assert work(0) == 3
            assert cufence.fault_count() == 0 and not cufence.is_enabled()
            assert cufence.last_report() is None and cufence.last_report_text() is None
            """,
            CUFENCE_LIBRARY="/nonexistent/libcufence.so",
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_not_to_be_loaded(self) -> None:
        for path, why in (
            ("/nonexistent/libcufence.so", r"CUFENCE_LIBRARY names '/nonexistent/libcufence\.so', and that is not a file"),
            (__file__, r".*test_package\.py cannot be loaded: "),
        ):
            done = standin.run_python("import cufence; cufence.stats()", CUFENCE_LIBRARY=path)
            self.assertRegex(done.stderr, f"Error: {why}")

    def test_another_library(self) -> None:
        done = standin.run_python(
            """
            import ctypes.util, os
            from cufence import _library
            from pathlib import Path
            lines = Path("/proc/self/maps").read_text().split()
            os.environ["CUFENCE_LIBRARY"] = next(path for path in lines if "libc.so" in path or "libc-" in path)
            _library.load()
            """
        )
        self.assertRegex(done.stderr, r"Error: .* has no cufence_\w+\(\): it is not the libcufence of this package")


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
