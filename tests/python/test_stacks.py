"""Captured Python stacks: cufence must read the same from the interpreter's memory as the interpreter itself reports."""

from __future__ import annotations

import standin


class Stacks(standin.EachPython):
    def test_the_main_thread(self) -> None:
        self.run_code(
            """
            class Model:
                def forward(self):
                    check(number(), expected(sys._getframe()), "method")
            def step(model):
                return [model.forward() for _ in range(2)]
            step(Model())
            check(number(), expected(sys._getframe()), "module")
            """
        )

    def test_calls_over_several_lines(self) -> None:
        self.run_code(
            """
            def two(a, b):
                return a, b
            def outer():
                def inner(
                    x,
                ):

                    found = [
                        number(),
                        expected(sys._getframe()),
                    ]
                    return found
                found = (
                    inner(
                        1,
                    )
                )
                return found
            found = outer()
            lines = text(found[0]).splitlines()
            want = found[1].splitlines()
            assert lines[1:] == want[1:], (lines, want)
            assert int(lines[0].split(":")[1]) == int(want[0].split(":")[1]) - 1, (lines, want)
            """
        )

    def test_generators_and_coroutines(self) -> None:
        self.run_code(
            """
            import asyncio
            def generator():
                for _ in range(3):
                    check(number(), expected(sys._getframe()), "generator")
                    yield
            def delegating():
                yield from generator()
            for _ in delegating(): pass
            async def inner():
                check(number(), expected(sys._getframe()), "async")
                await asyncio.sleep(0)
                check(number(), expected(sys._getframe()), "async, resumed")
            async def outer():
                await asyncio.gather(inner(), inner())
            asyncio.run(outer())
            """
        )

    def test_calls_through_c_code(self) -> None:
        self.run_code(
            """
            import functools
            def leaf(*_):
                check(number(), expected(sys._getframe()), "through C")
                return 0
            sorted([2, 1], key=leaf)
            functools.reduce(leaf, [1, 2, 3])
            class Callable:
                def __init__(self): leaf()
                def __call__(self): leaf()
                def __del__(self): leaf()
            Callable()()
            exec("leaf()")
            """
        )

    def test_a_module_being_imported(self) -> None:
        self.run_code(
            """
            import pathlib, builtins
            builtins.hook_test = (number, check, expected)
            folder = pathlib.Path(__file__).parent
            sys.path.insert(0, str(folder))
            (folder / "imported.py").write_text(
                "import sys\\nnumber, check, expected = hook_test\\ncheck(number(), expected(sys._getframe()), 'import')\\n")
            import imported
            """
        )

    def test_a_deep_stack(self) -> None:
        self.run_code(
            """
            def deep(depth):
                if depth == 0:
                    assert text(number()).count("\\n") == 24
                    return check(number(), expected(sys._getframe()), "deep")
                return deep(depth - 1)
            deep(100)
            """
        )

    def test_names_that_are_not_ascii(self) -> None:
        self.run_code(
            """
            code = "def größe(): check(number(), expected(sys._getframe()), 'latin')\\ndef 数(): größe()\\n数()"
            exec(compile(code, "/tmp/日本/ä.py", "exec"))
            exec(compile(code, "/tmp/\\U0001f600/ä.py", "exec"))
            """
        )

    def test_one_number_a_stack(self) -> None:
        self.run_code(
            """
            def a(): return number()
            first = {a() for _ in range(50)}
            second = {a() for _ in range(50)}
            assert len(first) == 1 and len(second) == 1 and first != second, (first, second)
            """
        )

    def test_code_that_goes_away(self) -> None:
        """New code objects at the addresses of old ones: the texts are those of the code that called."""
        self.run_code(
            """
            import gc
            kept = []
            for i in range(2000):
                space = {"number": number, "expected": expected, "sys": sys}
                exec(compile("def f%d(): return number(), expected(sys._getframe())" % i, "file%d.py" % i, "exec"), space)
                kept.append(space["f%d" % i]())
                del space
            gc.collect()
            for found, want in kept:
                check(found, want, "code that is gone")
            """
        )

    def test_code_that_is_edited(self) -> None:
        """A function of the same name, file and first line at the addresses of an earlier one: only its lines differ."""
        self.run_code(
            """
            for i in range(3000):
                space = {"number": number}
                lines = ["    x = %d" % j if i % 2 and j < i % 7 else "" for j in range(7 if i % 2 else i % 7)]
                exec(compile("\\n".join(["def f():", *lines, "    return number()"]), "cell.py", "exec"), space)
                found = text(space["f"]()).splitlines()[0]
                assert found == "cell.py:%d:f:python" % (2 + len(lines)), (i, found, len(lines))
                del space
            """
        )

    def test_code_in_other_files(self) -> None:
        """Only the name of the file differs, and not in its length: of the cells of a notebook, and of generated code."""
        self.run_code(
            """
            for folder in ("", "/tmp/generated/"):
                for i in range(1000, 2000):
                    space = {"number": number}
                    exec(compile("found = number()", "%s%d.py" % (folder, i), "exec"), space)
                    found = text(space["found"]).splitlines()[0]
                    assert found == "%s%d.py:1:<module>:python" % (folder, i), (i, found)
                    del space
            """
        )

    def test_native_frames_follow_unless_python_fills_the_report(self) -> None:
        self.run_code(
            """
            def caller(depth):
                if depth:
                    return caller(depth - 1)
                out = ctypes.create_string_buffer(1 << 16)
                hook.hook_all(out, len(out))
                return out.value.decode().splitlines()
            for calls, has_natives in ((1, True), (6, True), (7, False)): # and the module's frame
                lines = caller(calls - 1)
                natives = [line for line in lines if not line.endswith(":python")]
                assert len(lines) - len(natives) == calls + 1 and ":caller:python" in lines[0], lines
                assert (natives and natives[0].endswith(":libstack_hook.so")) if has_natives else not natives, lines
            """
        )

    def test_the_end_of_the_interpreter(self) -> None:
        """The interpreter frees the state of a daemon thread that is still capturing, and later data overwrites it."""
        self.run_code(
            """
            import threading, time
            hook.hook_ns.argtypes = [ctypes.c_int, ctypes.c_uint]
            def deep(depth):
                return deep(depth - 1) if depth else hook.hook_ns(1, 2**32 - 1)
            for _ in range(3):
                threading.Thread(target=deep, args=(3,), daemon=True).start()
            class Slow:
                def __init__(self): self.work = hook.hook_use_memory
                def __del__(self): self.work()
            sys.keep = Slow()
            time.sleep(0.2)
            """
        )

    def test_where_captures_stop(self) -> None:
        """Functions that the program registered with atexit still have frames; later steps of the interpreter's shutdown have none."""
        self.run_code(
            """
            import atexit, os
            number() # cufence finds the interpreter
            for _ in range(3): pass # and is heard by it
            def late():
                if ":late:python" not in text(number()):
                    os._exit(3)
            atexit.register(late)
            class Last:
                def __init__(self): self.number, self.leave = number, os._exit
                def __del__(self): self.leave(4 if self.number() else 0)
            sys.last = Last()
            """
        )

    def test_where_a_buffer_was_allocated_and_freed(self) -> None:
        code = """
import ctypes, cufence
from cufence import _library
library = _library.load()
_library.check(library.cufence_init(b""), "cufence_init")
import tensors
def show(number):
    size = ctypes.c_size_t(4096)
    out = ctypes.create_string_buffer(size.value)
    assert library.cufence_stack(number, out, ctypes.byref(size)) == (0 if number else 13)
    assert not number or size.value == len(out.value) + 1
    print(out.value.decode(), end="")
def allocate():
    return tensors.alloc(4000)
def free(address):
    tensors.free(address)
address = allocate()
show(cufence.describe(address)["buffer"]["allocated_stack"])
assert cufence.describe(address)["buffer"]["freed_stack"] == 0
show(0)
free(address)
show(cufence.describe(address)["buffer"]["freed_stack"])
"""
        done = standin.run_python(code, CUFENCE_OPTIONS="uaf=strict")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A.*:\d+ in allocate\n.*:\d+ in <module>\n.*:\d+ in free\n.*:\d+ in <module>\n\Z")
        off = standin.run_python(code, CUFENCE_OPTIONS="stacks=off")
        self.assertEqual((off.returncode, off.stdout), (0, ""), off.stderr)
