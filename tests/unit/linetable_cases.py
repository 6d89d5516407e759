"""Writes tests/fixtures/linetables.txt: line tables that real interpreters made, and the lines that these say themselves.

python3 tests/unit/linetable_cases.py PYTHON3.10 PYTHON3.11 ... > tests/fixtures/linetables.txt
"""

from __future__ import annotations

import subprocess
import sys

# Jumps back in a loop, calls over several lines, a long gap, code without a line, long lines and far columns.
SOURCE = '''
def planted(items, other=None):
    total = 0
    for item in items:
        total += (
            item
            * 2
        )
        if total > 100:
            try:
                total = other(
                    total,
                    [x for x in
                     items],
                    key=lambda: (
                        1))
            except (ValueError,
                    TypeError) as error:
                with error as e, other as o:
                    yield e
            finally:
                total = 1
''' + "\n" * 300 + '''
        total = yield total if total else item; total = 1; item = 2                                                                                                                                                  ; other(total)
    return (total,
''' + "\n" * 150 + '''
        other(
            1)[2].three
        )
'''

PROGRAM = r'''
import sys, textwrap
code = next(c for c in compile(sys.stdin.read(), "planted.py", "exec").co_consts if hasattr(c, "co_name"))
table = code.co_linetable
lines = [0] * (len(code.co_code) // 2)
for start, end, line in code.co_lines():
    for i in range(start // 2, end // 2):
        lines[i] = line or 0
for name, values in ("table", list(table)), ("lines", lines):
    print("\n%s of Python %s" % (name, sys.version.split()[0]))
    print(textwrap.fill(" ".join(map(str, values)), 120))
'''

print("# Made by linetable_cases.py: line tables that real interpreters made, and the lines that these say themselves, one for each two")
print("# bytes of bytecode; 0: none.")
for python in sys.argv[1:]:
    print(subprocess.run([python, "-c", PROGRAM], input=SOURCE, stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
