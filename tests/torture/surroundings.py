"""Torture in hard surroundings (docs/testing.md): plays each seed with and without cufence, and compares."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

CHUNK = 25  # seeds of a process
SLOWER_MS = 4000  # that a seed may take longer than natively

# Known defects that are still there: what shows them is left out, by the names of plan.c. Who mends one takes its name away.
KNOWN = "unwritten dumps"

# Lines that cufence may print outside of a report, each once.
STATED = [re.compile(text) for text in (
    r"cufence: (no faults|no faults seen, but the devices may still be working|no faults seen, but no file descriptor was left, .*|no faults, but not all buffers were checked .*|1 finding); [\d,]+ allocations? guarded",
    r"cufence: NOTHING WAS GUARDED: (cufence saw no allocation|every allocation was left to the driver)",
    r"cufence: use after free: tested for \d+ of \d+ (?:allocation site|freed buffer)s?$",
    r"cufence: packed: \d+ allocations? shared pages",
    r"cufence: not guarded: [\d,]+ (allocations?|buffers?) ",
    r"cufence: not guarded: [\d,]+ (allocations?|buffers?) .*: the driver allocated them",
    r"cufence: a kernel has faulted on GPU 0; reading the driver's core dump$",
    r"cufence: faults will be caught but not explained: ",
    r"cufence: the device was still working \d+ ms after the program's end; later faults are not reported$",
    r"cufence: cannot (write|append)",
    r"cufence: (log|json): cannot",
    r"cufence: cannot start a thread",
    r"cufence: from now on small buffers \(up to .*\) on GPU 0 share pages of 2 MiB, because cufence's address space",
    r"cufence_sim: the core dump could not be written to '/proc/self/task/\d+/fd/\d+': Too many open files$",  # the second one
    r"cufence: address space is short \(\d+ MiB; .*: guards are smaller from now on",
    r"cufence: address space is short \(\d+ MiB; .*: (?!guards)",
    r"cufence: the slack of buffers on GPU 0 is not watched: the driver returns CUDA_ERROR_OUT_OF_MEMORY$",  # no thread for a stream
)]
# What the first line of a report says of each planted defect.
SAID = {
    "free": r"invalid free by cuMemFree: .* 8 bytes inside buffer",
    "copy": r"host read out of bounds by cuMemcpyDtoH: .* 1 byte past its end",
    "overrun": r"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of",
    "hosted": r"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of",
    "hang": r"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of",
    "null": r"null-pointer WRITE",
}


def plan_of(record):
    parts = dict(re.findall(r"(place|end|planted): ([^,]*)", record["plan"]))
    words = set(record["plan"].split(", "))
    return parts, words


def split_reports(text):
    """Returns the first lines of reports, and the lines outside of them."""
    reports, others, is_inside, last = [], [], False, None
    for line in text.splitlines():
        marked = re.match(r"==\d+== ?(.*)", line)
        content = marked.group(1) if marked else line
        if is_inside:
            if content.startswith("SUMMARY: "):
                is_inside, last = False, content
        elif content == last:
            pass  # once more, at the end
        elif re.match(r"cufence: (out-of-bounds|invalid free|host |null-pointer|illegal|use after free by|double free|kernel|a kernel (?!has faulted on GPU))", content):
            reports.append(content)
            is_inside = True
        else:
            others.append(content)
    return reports, others


def judge_words(native, guarded, words, parts):
    """What was said: at most the stated lines, and one report for what was planted."""
    said, planted = native["err"].splitlines(), parts.get("planted")
    reports, others = split_reports(guarded["err"])
    for line in said:
        if line in others:
            others.remove(line)
    stated = []
    for line in others:
        which = [text for text in STATED if text.match(line)]
        if not which or which[0] in stated:
            yield f"unstated line: {line[:150]}"
        stated += which[:1]
    is_planted = guarded["planted"] and planted
    most = 1 if is_planted else 0
    if len(reports) > most:
        yield f"{len(reports)} reports instead of {most}: {reports[-1][:150]}"
    is_unheard = words & {"full", "no_reader", "closed_standard", "file_size"}
    is_killed = guarded["is_cut"] or parts["end"] in ("SIGKILL", "SIGTERM")  # at once, maybe before the report
    if most > len(reports) and not is_unheard and not is_killed:
        yield "no report"
    for report in reports[:most]:
        if not re.search(SAID[planted], report):
            yield f"another report: {report[:150]}"


def judge(native, guarded, is_native):
    """Yields what is wrong."""
    parts, words = plan_of(guarded)
    if native["status"] in (-1, -2, signal.SIGSEGV, signal.SIGBUS):
        yield f"the generator is wrong: natively it ends with {native['status']}"
        return
    if guarded["status"] == -1:
        yield f"it hangs after: {(guarded['steps'] or ['nothing'])[-1]}"
    elif guarded["status"] != native["status"] and not (guarded["is_cut"] and guarded["status"] in (0, 6, 9, 15)):
        yield f"status {guarded['status']} instead of {native['status']}, after: {(guarded['steps'] or ['nothing'])[-1]}"
    for i, (ours, theirs) in enumerate(zip(guarded["steps"], native["steps"])):
        if ours != theirs:
            yield f"step {i}: {ours} instead of {theirs}"
            break
    if not guarded["is_cut"]:
        if len(guarded["steps"]) < len(native["steps"]) and guarded["status"] == native["status"]:
            yield f"only {len(guarded['steps'])} of {len(native['steps'])} steps"
        if guarded["out"] != native["out"] and guarded["status"] == native["status"]:
            yield f"output: {guarded['out'][:200]} instead of {native['out'][:200]}"
    if guarded["left"]:
        yield f"{guarded['left']} processes left behind"
    files = [name for name in guarded["files"] if name not in ("log", "gone")]  # the program's own
    if files:
        yield f"files left behind: {' '.join(files)}"
    if guarded["ms"] > native["ms"] + SLOWER_MS and guarded["status"] != -1:
        yield f"it took {guarded['ms']} ms instead of {native['ms']}"
    if not is_native:
        yield from judge_words(native, guarded, words, parts)


def records_of(options, argv, environment):
    """Plays a chunk. Returns what the program tells of each seed, with what it said and the files it has left."""
    with tempfile.TemporaryDirectory(prefix="surroundings-") as name:
        os.chmod(name, 0o777)
        argv = [*argv, "--surroundings", name, "--without", options.without]
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
        records, folder = [json.loads(line) for line in done.stdout.decode().splitlines()], pathlib.Path(name)
        for record in records:
            own = folder / str(record["seed"])
            record["files"] = [str(path.relative_to(own)) for path in own.rglob("*")]
            for what in ("out", "err"):
                text = own.with_suffix("." + what).read_text(errors="replace")
                record[what] = "".join(line for line in text.splitlines(True) if not re.match(r"\[0\] ", line) or not options.verbose)
                record["said " + what] = text
    return records, done.returncode


def play(options, first, count, argv, environment):
    """Returns the failures of a chunk, as torture.py's play()."""
    guarded_too = environment if options.native else dict(environment, LD_PRELOAD=str((options.build / "lib/libcufence_preload.so").resolve()))
    both = [records_of(options, argv, where) for where in (environment, guarded_too)]
    for records, status in both:
        if len(records) != count:
            return [(first + len(records), "", f"the program told of {len(records)} of {count} seeds from {first} on, and ended with {status}", "")], count
    failures = []
    for native, guarded in zip(both[0][0], both[1][0]):
        wrong = list(judge(native, guarded, options.native))
        said = "".join(f"--- {name}: {json.dumps({key: value for key, value in record.items() if key not in ('err', 'out', 'said err', 'said out', 'plan')})}\n"
                       f"{record['said out']}{record['said err']}" for name, record in (("natively", native), ("guarded", guarded)))
        if wrong:
            failures.append((guarded["seed"], guarded["plan"], "; ".join(wrong), said))
        elif options.seed is not None:
            sys.stderr.write(f"{guarded['plan']}\n{said}")
    return failures, count
