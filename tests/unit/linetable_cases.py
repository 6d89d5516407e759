"""Writes tests/unit/linetable_cases.h: line tables that real interpreters made, and the lines that these say themselves.

python3 tests/unit/linetable_cases.py PYTHON3.9 PYTHON3.10 PYTHON3.11 ... > tests/unit/linetable_cases.h
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
import dis, sys
code = next(c for c in compile(sys.stdin.read(), "planted.py", "exec").co_consts if hasattr(c, "co_name"))
version = "%d_%d" % sys.version_info[:2]
table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
lines = [0] * (len(code.co_code) // 2)
if sys.version_info < (3, 10):
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for i in range(len(lines)):
        line = lines[i] = starts.get(2 * i, line)
else:
    for start, end, line in code.co_lines():
        for i in range(start // 2, end // 2):
            lines[i] = line or 0
def rows(values, step):
    return ",\n".join("    " + ", ".join(map(str, values[i:i + step])) for i in range(0, len(values), step))
print("/* Python %s, first line %d */" % (sys.version.split()[0], code.co_firstlineno))
print("static const unsigned char table_%s[] = {\n%s};" % (version, rows(list(table), 25)))
print("static const int lines_%s[] = {\n%s};\n" % (version, rows(lines, 20)))
'''

print("/* Made by linetable_cases.py. Lines are one for each two bytes of bytecode; 0: none. */")
print("/* clang-format off */")
for python in sys.argv[1:]:
    print(subprocess.run([python, "-c", PROGRAM], input=SOURCE, stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
