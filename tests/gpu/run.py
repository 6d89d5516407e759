"""Runs the cases: each row of the zoo and what else cases.py has, each run in its own process, and checks its end and its report.

    python3 tests/gpu/run.py                                 every case in every way
    python3 tests/gpu/run.py --programs                      those in CUDA C++; --stories: those in Python
    python3 tests/gpu/run.py triton_overrun oom              these, in their ways
    python3 tests/gpu/run.py triton_overrun.backend --wheel build/wheel/cufence-*.whl
    python3 tests/gpu/run.py --results RESULTS.md --also programs.json

A program or story has one planted bug, or none. It marks the line that faults with `FAULT` and the line of Python that raises with
`RAISES`, and a story prints "launch <time>" right before the launch that faults. Most don't use cufence; it is applied to them in several
ways (harness.py). If something is missing, cases are skipped and the reason is printed. The exit status is 1 if a case has failed, 2 if
nothing is built, else 0.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import CASES
from harness import RUNTIMES, WAYS, Case, Machine, Result, prepare, reason_to_skip, run_case
from results import also, markdown, report_time, show, summary, write_json


def chosen(names: list[str], ways: list[str]) -> list[tuple[Case, str]]:
    """Returns the runs that the names select: a case in all of its ways, or CASE.WAY. Without names, all runs."""
    runs = [(case, way) for case in CASES for way in case.ways if not ways or way in ways]
    return [(case, way) for case, way in runs if not names or case.name in names or f"{case.name}.{way}" in names]


def unknown(names: list[str]) -> list[str]:
    known = {case.name for case in CASES} | {f"{case.name}.{way}" for case in CASES for way in case.ways}
    return sorted(set(names) - known)


def run(case: Case, way: str, machine: Machine) -> Result:
    reason = reason_to_skip(case, way, machine)
    return Result(case.name, None, reason, way=way) if reason else run_case(case, way, machine)


def has_lost_its_fault(case: Case, result: Result) -> bool:
    """Returns whether the run waited for a hung device: the driver never began the dump.

    Driver 580 does this occasionally if several processes fault on one device at once, without cufence too; see
    docs/how-faults.md.
    """
    return bool((case.report or case.facts) and result.run and result.run.is_timed_out and not result.run.report)


def run_again(case: Case, way: str, machine: Machine) -> Result:
    result = run(case, way, machine)
    result.detail = f"alone, after it had hung beside others: the driver had lost the fault; {result.detail}"
    return result


def run_all(runs: list[tuple[Case, str]], machine: Machine, jobs: int, is_shown: bool) -> list[Result]:
    """Runs in the order of the table, `jobs` at a time; runs that need the GPU's memory for themselves follow, one by one."""
    together = [(case, way) for case, way in runs if not case.is_alone]
    with ThreadPoolExecutor(jobs) as pool:
        results = [show(result, is_shown) for result in pool.map(lambda one: run(one[0], one[1], machine), together)]
    for i, (case, way) in enumerate(together):
        if jobs > 1 and has_lost_its_fault(case, results[i]):
            results[i] = show(run_again(case, way, machine), is_shown)
    return results + [show(run(case, way, machine), is_shown) for case, way in runs if case.is_alone]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="CASE[.WAY]", help="cases to run; all without any")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and their ways")
    parser.add_argument("--programs", dest="way", action="store_const", const=list(RUNTIMES), help="only the programs")
    parser.add_argument("--stories", dest="way", action="store_const", const=[way for way in WAYS if way not in RUNTIMES], help="only the stories")
    parser.add_argument("--way", choices=WAYS, action="append", default=[], help="only this way; may be given several times")
    parser.add_argument("--wheel", type=Path, help="the wheel of cufence, for the way `backend`; skipped without")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at a time, 1 without")
    parser.add_argument("--json", type=Path, help="write the results here, for --also of a later run")
    parser.add_argument("--results", type=Path, help="write a Markdown file of the results here")
    parser.add_argument("--also", type=Path, action="append", default=[], help="JSON results of other tests to merge in")
    parser.add_argument("--show", action="store_true", help="print what every story printed, not only the failed ones")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{case.name}: {' '.join(case.ways)}" for case in CASES))
        return 0
    if unknown(options.names):
        parser.error(f"no such case: {', '.join(unknown(options.names))}; --list prints them")
    if options.wheel and not options.wheel.is_file():
        parser.error(f"--wheel: {options.wheel} is not a file")
    if options.jobs < 1:
        parser.error(f"--jobs: {options.jobs} is not a number from 1")
    results = [result for path in options.also for result in also(path)]

    machine = prepare(options.wheel and options.wheel.resolve())
    if machine.facts.get("gpu") and not machine.library.is_file():
        print(f"there is a GPU, but no {machine.library}: build first ('./dev build')", file=sys.stderr)
        return 2
    results += run_all(chosen(options.names, options.way), machine, options.jobs, options.show)
    if options.json:
        write_json(results, options.json)
    results += [show(result, options.show) for result in report_time(results)]
    if options.results:
        options.results.write_text(markdown(results, machine.facts))
    print(summary(results))
    return 1 if any(result.ok is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
