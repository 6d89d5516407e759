"""Adds up what ctest and check() of `dev` have left in a folder, after the end of what failed cases printed: CI keeps
the end of a log. Its last line is read by CI. A case that failed beside others and then passed alone counts as passed, and is named."""
import pathlib, re, sys
import xml.etree.ElementTree as xml

TOLD, LINES = 5, 25  # failed cases whose output is repeated, and the lines of each


def repeat(name, text):
    """Repeats the end of what a failed case printed, without the lines of the cases that passed."""
    lines = [line for line in (text or "").splitlines() if line.strip() and not re.match(r"\[ RUN|\[ +OK", line)]
    print(f"---- {name}", *lines[-LINES:], sep="\n")


def count_python(name, text):
    """The tests of a Python file: returns how many passed, the names of those that failed, and how many were skipped."""
    ran = re.search(r"^Ran (\d+) tests? in", text, re.M)
    if not ran:
        return 0, [f"{name}: did not run"], 0
    end = text[ran.end():]
    count = lambda word: int((re.search(rf"(?<!expected )\b{word}=(\d+)", end) or [0, 0])[1])
    bad = count("failures") + count("errors") + count("unexpected successes")
    names = [f"{name}: {one}" for one in re.findall(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (.*)", text, re.M)[:bad]]
    names += [f"{name}: see above"] * (bad - len(names))
    return max(0, int(ran[1]) - bad - count("skipped")), names, count("skipped")


def passes_alone(file, name):
    again = file.parent / "alone" / file.name
    return again.exists() and any(case.get("name") == name and case.get("status") == "run" for case in xml.parse(again).getroot().iter("testcase"))


folder = pathlib.Path(sys.argv[1])
passed, failed, skipped, alone = 0, [], 0, []
for file in sorted(folder.glob("*.xml")):
    for case in xml.parse(file).getroot().iter("testcase"):
        skip, name, text = case.find("skipped"), case.get("name"), case.findtext("system-out") or ""
        if name.startswith("python.") and skip is None:
            well, bad, left = count_python(name, text)
            if case.get("status") != "run" and not bad:
                bad = [f"{name}: {case.get('status')}"]
            passed, skipped = passed + well, skipped + left
        elif case.get("status") == "run":
            passed, bad = passed + 1, []
        elif skip is not None and skip.get("message", "").startswith("SKIP_"):
            skipped, bad = skipped + 1, []
        else:  # also what could not be started: ctest calls that skipped
            bad = [f"{file.stem}: {name}"]
        if bad and passes_alone(file, name):
            alone.append(f"{file.stem}: {name}")
            passed += len(bad)
            bad = []
        if bad and len(failed) < TOLD:
            repeat(bad[0], text)
        failed += bad
checks = folder / "checks.tsv"
for line in checks.read_text().splitlines() if checks.exists() else []:
    status, name = line.split("\t")
    if status == "passed":
        passed += 1
    elif status == "skipped":
        skipped += 1
    else:
        failed.append(name)
for name in alone:
    print(f"failed beside other tests, passed alone: {name}")
for name in failed:
    print(f"FAILED {name}")
print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
