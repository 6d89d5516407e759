"""Defects that have names, and the generator of programs that has to find each: tests/torture and tests/surroundings.

The defects that a generator has to find are in PLAYER.mutation of this folder, each of the form

    defect NAME: a sentence
    file: allocator/...
    seeds: 600          most to play (may be left out), and where the defect shows only in one kind of chunk:
    first: 250          where to begin (may be left out)
    @@
     lines as in a patch, of which those that begin
    -with a blank or a minus stand in the file exactly once
    +and those with a blank or a plus take their place

with one or more such hunks; another `file:` between them is where the following ones are. Lines that are not there any more are
an error: the defect has to follow the code.
"""
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PLAYERS = {"torture": ("--lines", "0"), "surroundings": ()}  # and the arguments of its script besides
LIBRARIES = ("cufence", "cufence_cli", "cufence_preload")
TARGETS = (*LIBRARIES, "tests/torture/all", "tests/surroundings/all")
SEEDS = 1200

Defect = collections.namedtuple("Defect", "name player what seeds first edits")  # edits: (file, old, new)


def read(player, text):
    name, what, rest = re.fullmatch(r"defect (\w+): (.*?)\n(.*)", text, re.S).groups()
    fields, edits = {}, []
    for line in rest.rstrip().splitlines():
        if field := re.fullmatch(r"(\w+): *(.*)", line):
            fields[field[1]] = field[2]
        elif line == "@@":
            edits.append((fields["file"], [], []))
        else:
            _, old, new = edits[-1]
            old += [line[1:]] * (line[:1] != "+")
            new += [line[1:]] * (line[:1] != "-")
    edits = [(file, "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)) for file, old, new in edits]
    return Defect(name, player, what, int(fields.get("seeds", SEEDS)), int(fields.get("first", 0)), edits)


def chosen(names):
    """Returns the defects of these names, all without any."""
    defects = [read(path.stem, text) for path in sorted(HERE.glob("*.mutation"))
               for text in re.split(r"^(?=defect )", path.read_text(), flags=re.M) if text]
    unknown = set(names) - {defect.name for defect in defects}
    if unknown:
        sys.exit(f"mutants: no defect {' '.join(sorted(unknown))}")
    return [defect for defect in defects if not names or defect.name in names]


def harmed(tree, defect):
    """Returns the texts of the files with the defect planted, by their names."""
    texts = {file: (tree / file).read_text() for file, _, _ in defect.edits}
    for file, old, new in defect.edits:
        if texts[file].count(old) != 1:
            sys.exit(f"mutants: {defect.name}: its text occurs {texts[file].count(old)} times in {file}:\n{old}")
        texts[file] = texts[file].replace(old, new)
    return texts


def look_for(player, first, seeds, build, jobs):
    """Returns what the generator said, or None where it found nothing."""
    script = HERE.parent / player / f"{player}.py"
    argv = [sys.executable, script, "--build", build, "--most", "1", "--first", first, "--seeds", seeds, "--jobs", jobs, *PLAYERS[player]]
    done = subprocess.run([str(part) for part in argv], stdout=subprocess.PIPE, check=False)
    return done.stdout.decode(errors="replace").splitlines()[0] if done.returncode else None
