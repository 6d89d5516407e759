"""Adds up what ctest, unittest and check() of `dev` have left in a folder, after the end of what failed cases printed: CI keeps
the end of a log. Its last line is read by CI."""
import pathlib, re, sys
import xml.etree.ElementTree as xml

TOLD, LINES = 5, 25  # failed cases whose output is repeated, and the lines of each


def repeat(name, text):
    """Repeats the end of what a failed case printed, without the lines of the cases that passed."""
    lines = [line for line in (text or "").splitlines() if line.strip() and not re.match(r"\[ RUN|\[ +OK", line)]
    print(f"---- {name}", *lines[-LINES:], sep="\n")


folder = pathlib.Path(sys.argv[1])
passed, failed, skipped = 0, [], 0
for file in sorted(folder.glob("*.xml")):
    for case in xml.parse(file).getroot().iter("testcase"):
        skip = case.find("skipped")
        if case.get("status") == "run":
            passed += 1
        elif skip is not None and skip.get("message", "").startswith("SKIP_"):
            skipped += 1
        else:  # also what could not be started: ctest calls that skipped
            failed.append(f"{file.stem}: {case.get('name')}")
            if len(failed) <= TOLD:
                repeat(failed[-1], case.findtext("system-out"))
checks = folder / "checks.tsv"
for line in checks.read_text().splitlines() if checks.exists() else []:
    status, name = line.split("\t")
    if status == "passed":
        passed += 1
    elif status == "skipped":
        skipped += 1
    else:
        failed.append(name)
log = folder / "python.log"
if log.exists():
    text = log.read_text(errors="replace")
    ran = re.search(r"^Ran (\d+) tests? in", text, re.M)
    if not ran:
        failed.append("python: did not run")
    else:
        end = text[ran.end():]
        count = lambda word: int((re.search(rf"(?<!expected )\b{word}=(\d+)", end) or [0, 0])[1])
        bad = count("failures") + count("errors") + count("unexpected successes")
        names = re.findall(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (.*)", text, re.M)
        if bad:
            repeat("python", text[:ran.start()])
        failed += [f"python: {name}" for name in names[:bad]] + ["python: see above"] * (bad - len(names))
        skipped += count("skipped")
        passed += max(0, int(ran[1]) - bad - count("skipped"))
for name in failed:
    print(f"FAILED {name}")
print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
