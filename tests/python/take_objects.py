"""A compiler launcher for CMake: takes an object from another build of the same tree instead of compiling it again.

    cmake -DCMAKE_C_COMPILER_LAUNCHER="python3;take_objects.py;BUILD" ...

An object has the same path in both builds. One that is missing or older than its source is compiled.
"""

import os
import shutil
import sys

build, command = sys.argv[1], sys.argv[2:]
if "-c" in command and "-o" in command:
    source, made = command[command.index("-c") + 1], command[command.index("-o") + 1]
    there = os.path.join(build, made)
    if os.path.exists(there) and os.path.getmtime(there) >= os.path.getmtime(source):
        shutil.copyfile(there, made)
        if "-MF" in command:
            with open(command[command.index("-MF") + 1], "w") as dependencies:
                dependencies.write(f"{made}: {source}\n")
        sys.exit()
os.execvp(command[0], command)
