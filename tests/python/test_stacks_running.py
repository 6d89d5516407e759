"""Captured Python stacks of code that the interpreter is changing, copying or compiling, and of processes and interpreters beside
the first."""

from __future__ import annotations

import standin


class Running(standin.EachPython):
    def test_code_that_is_hot(self) -> None:
        """The interpreter specializes instructions, calls without a C frame, and compiles what runs often."""
        self.run_code(
            """
            def leaf(): return number(), expected(sys._getframe())
            class Layer:
                def __init__(self): self.made = leaf()
                @property
                def weight(self): return leaf()
                def __getitem__(self, i): return leaf()
                def __iter__(self): yield leaf()
                def __enter__(self): return leaf()
                def __exit__(self, *error): return True
            def recursive(depth):
                return recursive(depth - 1) if depth else leaf()
            def loop(rounds):
                kept = set()
                for i in range(rounds):
                    layer = Layer()
                    kept |= {layer.made, layer.weight, layer[0], leaf(), recursive(i % 30), *layer}
                    with layer as entered:
                        kept.add(entered)
                        raise ValueError
                return kept
            kept = loop(300)
            assert len(kept) < 300, len(kept)
            for found, want in kept:
                check(found, want, "hot")
            is_in_jit = sys._jit.is_active if hasattr(sys, "_jit") else bool
            def short(what): return what(), is_in_jit()
            def compiled(what, rounds):
                seen = {}
                for _ in range(rounds):
                    found = short(what)
                    seen[found] = seen.get(found, 0) + 1
                return seen
            both = [compiled(what, rounds) for what, rounds in ((number, 8000), (lambda: expected(sys._getframe(1)), 1))]
            [(want, _)] = both[1]
            check(*{found for found, _ in both[0]}, want, "compiled")
            if hasattr(sys, "_jit") and sys._jit.is_enabled():
                assert sum(count for (_, in_jit), count in both[0].items() if in_jit) > 100, both
            sys.setrecursionlimit(30000)
            check(*recursive(20000), "over many chunks of the interpreter's stack")
            """
        )

    def test_code_that_is_watched(self) -> None:
        """Tracing and monitoring replace instructions, and call in between."""
        self.run_code(
            """
            def step():
                for _ in range(3):
                    check(number(), expected(sys._getframe()), "watched")
            seen = 0
            def watch(frame, event, _):
                global seen
                seen += frame.f_code is step.__code__
                check(number(), expected(sys._getframe()), event)
                return watch
            for start in (sys.settrace, sys.setprofile):
                start(watch)
                for _ in range(20): step()
                start(None)
            assert seen > 200, seen
            if hasattr(sys, "monitoring"):
                of, kinds, seen = sys.monitoring, sys.monitoring.events, 0
                def event(code, *_):
                    global seen
                    seen += code is step.__code__
                    check(number(), expected(sys._getframe()), "event")
                of.use_tool_id(2, "test")
                for kind in (kinds.LINE, kinds.INSTRUCTION, kinds.PY_START, kinds.CALL):
                    of.register_callback(2, kind, event)
                of.set_local_events(2, step.__code__, kinds.LINE | kinds.INSTRUCTION | kinds.PY_START | kinds.CALL)
                step()
                of.set_local_events(2, step.__code__, 0)
                assert seen > 20, seen
            step()
            """
        )

    def test_threads_that_run_the_same_code(self) -> None:
        """At once, while others compile code and drop it: free-threaded builds copy the bytecode for each thread."""
        self.run_code(
            """
            import gc, threading
            failed = []
            def shared():
                for _ in range(3):
                    check(
                        number(), expected(sys._getframe()),
                        "shared")
            def work(ready):
                try:
                    ready.wait()
                    for i in range(60):
                        shared()
                        space = {"shared": shared}
                        exec(compile("\\n" * (i % 17) + "def f():\\n  for _ in range(3): shared()\\nf()", "f%d.py" % i, "exec"), space)
                except BaseException as error:
                    failed.append(error)
            for count in (2, 5, 12):
                ready = threading.Barrier(count)
                threads = [threading.Thread(target=work, args=(ready,)) for _ in range(count)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                gc.collect()
            assert not failed, failed[0]
            class Last:
                def __del__(self): self.at_end = failed.append(text(number()))
            kept = threading.local()
            def end(): kept.last = Last()
            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            assert len(failed) == 1 and failed[0].count(":Last.__del__:" if sys.version_info >= (3, 11) else ":__del__:") == 1, failed
            """
        )

    def test_a_child_process(self) -> None:
        self.run_code(
            """
            import os, threading, warnings
            warnings.simplefilter("ignore")
            check(number(), expected(sys._getframe()), "parent")
            def work():
                check(number(), expected(sys._getframe()), "thread of the child")
                worked.append(1)
            worked = []
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    check(number(), expected(sys._getframe()), "child")
                    thread = threading.Thread(target=work)
                    thread.start()
                    thread.join()
                    status = 0 if worked else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            """
        )

    def test_interpreters_in_the_interpreter(self) -> None:
        self.run_code(
            """
            import threading
            try:
                from concurrent import interpreters # from 3.14 on
            except ImportError:
                sys.exit()
            lines = open(__file__).read().partition("import threading")[0]
            code = "import sys; sys.argv[1:] = [%r]\\n" % sys.argv[1] + lines + '''
            def inner():
                check(number(), expected(sys._getframe()), "inner")
                assert ":inner:python" in text(number())
            for _ in range(50): inner()
            '''
            def play():
                interpreter = interpreters.create()
                interpreter.exec(code)
                interpreter.close()
                check(number(), expected(sys._getframe()), "the main one again")
                played.append(1)
            played = []
            play()
            threads = [threading.Thread(target=play) for _ in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert len(played) == 4
            """
        )

    def test_an_interpreter_that_cannot_be_read(self) -> None:
        """One of an unknown version, and from 3.13 on, one with an offset that is wrong: it says so once, and native frames remain."""
        self.run_code(
            """
            import os, subprocess
            if sys.version_info < (3, 11) or sys.argv[2:] == ["offset"] and sys.version_info < (3, 13):
                sys.exit() # its version is not in memory
            if len(sys.argv) == 2:
                for what, why in (("version", "not those of this Python"), ("offset", "not as they should be in Python")):
                    done = subprocess.run([sys.executable, *sys.argv, what], capture_output=True, text=True)
                    assert done.returncode == 0, done
                    said = done.stderr.splitlines()
                    version = sys.version.split()[0]
                    if what == "version" or sys.version_info >= (3, 13):
                        assert len(said) == 1 and said[0].endswith(why + " " + version), said
                sys.exit()
            def change(at, old, new):
                word = ctypes.c_uint64.from_address(at)
                assert word.value == old, hex(word.value)
                page = at & -4096
                assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(at + 8 - page), 3) == 0
                word.value = new
            if sys.argv[2] == "version":
                at = ctypes.addressof(ctypes.c_ulong.in_dll(ctypes.pythonapi, "Py_Version"))
                change(at, sys.hexversion, 0x03ff00f0)
            else:
                code, head = {13: 34, 14: 39}.get(sys.version_info[1], 47), object.__basicsize__
                at = ctypes.addressof(ctypes.c_uint64.in_dll(ctypes.pythonapi, "_PyRuntime")) + 8 * (code + 1)
                change(at, 96 + head, 8)
            for _ in range(10):
                assert number() == 0
            out = ctypes.create_string_buffer(1 << 16)
            hook.hook_all(out, len(out))
            lines = out.value.decode().splitlines()
            assert lines and lines[0].endswith(":libstack_hook.so"), lines
            """
        )
