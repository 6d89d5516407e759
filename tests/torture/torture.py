#!/usr/bin/env python3
"""Plays seeds of the torture program (docs/testing.md): in chunks, a process each, every chunk with options of its own.

    torture.py --with surroundings    each seed in a process of its own, in hard surroundings, with and without cufence
    torture.py [--seeds N]            N seeds on the simulated device
    torture.py --seed N [--verbose]   one again, as it was played
    torture.py --gpu --minutes M      on real GPUs, one or two (--devices), for so long
    torture.py --json FILE            a part of ./dev gpu-test: on one real GPU, and on two where there are two, --minutes (4) each
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import surroundings

CHUNK = 50
GPU_CHUNK = 10  # there a seed takes a second: every kind has its turn within a minute, and a time limit is kept

# Defects that are known and still there: the programs that show them are left out. Who mends one takes its name away.
KNOWN = ""

# What a chunk is played with, in turn: a name, cufence's options, its figures (base/tunables.h), the simulated device's, and arguments of the program.
SIMULATED = [
    ("plain", "", "", "devices=2", "--devices 2"),
    ("strict", "uaf=strict,streams=on", "", "devices=2", "--devices 2"),
    ("alone", "peers=on", "", "devices=2,strict=1", "--devices 2 --library"),
    ("trimmed", "streams=on", "idle_age=1,idle_max=4194304,idle_beyond=0,cache_max=0", "devices=2,strict=1,reuse=0", "--devices 2"),
    ("one device", "align=auto,streams=on,slack=off", "", "devices=1", "--devices 1"),
    ("injected", "", "", "devices=2", "--devices 2 --inject"),
    ("small arena", "guard=2M..2M,remember=16,uaf=strict", "", "devices=2,reserve=1G", "--devices 2 --scarce"),
    ("start", "side=start,streams=on", "", "devices=2,strict=1", "--devices 2"),
    ("scarce", "", "", "devices=2,memory=64M", "--devices 2 --scarce"),
    ("strict, injected", "uaf=strict,streams=on,slack=off", "cache_max=0", "devices=2", "--devices 2 --inject"),
    ("alternate", "side=alternate,align=64,uaf=strict", "", "devices=1", "--devices 1 --align 64"),
    ("strict, alone", "uaf=strict,peers=on", "idle_max=2097152,idle_beyond=0", "devices=2,strict=1", "--devices 2 --library"),
    ("adaptive", "", "uaf_share=100", "devices=2,strict=1", "--devices 2"),
    ("off", "uaf=off,slack=off", "", "devices=2,strict=1", "--devices 2"),
    ("adaptive, scarce", "", "uaf_share=100,cache_max=0", "devices=2,memory=64M", "--devices 2 --scarce"),
    ("adaptive, injected", "", "uaf_share=100,idle_age=1", "devices=2", "--devices 2 --inject"),
    # No kernel here writes next to a buffer: what the watch finds is wrong. The pattern needs the streams that memory is allocated
    # on, and the simulated device keeps those of ended threads (c4).
    ("watched", "slack=on", "", "devices=2,strict=1", "--devices 2 --without churn"),
    ("watched, trimmed", "slack=on", "slack_every=1,idle_age=1,idle_max=4194304,idle_beyond=0,cache_max=0", "devices=2,slow=2000", "--devices 2 --without churn"),
    ("watched, strict", "slack=on,uaf=strict", "slack_every=3", "devices=2,slow=10000", "--devices 2 --without churn"),
    ("watched, filled", "slack=on,fill=0x5a/0xa5,side=alternate", "slack_every=2", "devices=2,slow=2000", "--devices 2 --without churn"),
    ("watched, alone", "slack=on,fill=off/0xa5,peers=on", "slack_every=2", "devices=2,strict=1", "--devices 2 --library --without churn"),
    ("watched, injected", "slack=on", "slack_every=4", "devices=2", "--devices 2 --inject --without churn"),
    # Buffers that share pages: their redzones are watched in any case.
    ("packed", "small=pack", "slack_every=3", "devices=2,strict=1", "--devices 2 --without churn"),
    ("packed, trimmed", "small=pack", "slack_every=1,idle_age=1,idle_max=4194304,idle_beyond=0,cache_max=0", "devices=2", "--devices 2 --without churn"),
    ("packed, strict", "small=pack,uaf=strict,streams=on", "", "devices=2,slow=10000", "--devices 2 --without churn"),
    ("packed, watched", "small=pack,slack=on,fill=0x5a/0xa5,side=alternate,align=64", "", "devices=2,strict=1", "--devices 2 --align 64 --without churn"),
    ("packed, alone", "small=pack,peers=on", "uaf_share=100", "devices=2,strict=1", "--devices 2 --library --without churn"),
    ("packed, scarce", "small=pack", "", "devices=2,memory=64M", "--devices 2 --scarce --without churn"),
    ("packed, injected", "small=pack", "slack_every=4,idle_age=1", "devices=2", "--devices 2 --inject --without churn"),
    ("watched, adaptive", "slack=on", "slack_every=1,uaf_share=100", "devices=2,strict=1,slow=2000", "--devices 2 --without churn"),
    # What is left to the driver is freed as it does that, which may wait; and memory of graphs is the driver's own.
    ("skipped", "skip=smaller:16K,streams=on", "", "devices=2,strict=1", "--devices 2 --timed --without graph"),
    ("limited", "skip=smaller:4096,slack=off", "uaf_share=100", "devices=2", "--devices 2 --timed --without graph"),
]
# With uaf=off a defect shows as wrong data; with uaf=strict as a fault, which must not happen on a peer's memory.
REAL = [
    ("plain", "", "", "", ""),
    ("strict", "uaf=strict", "", "", ""),
    ("alone", "peers=on", "", "", "--library"),  # nothing sees who is given access to whom
    ("trimmed", "", "idle_age=1,idle_max=4194304,idle_beyond=0,cache_max=0", "", ""),
    ("auto", "align=auto", "", "", ""),
    ("start", "side=start,uaf=strict", "", "", ""),
    ("adaptive", "", "uaf_share=100", "", ""),
    ("off", "uaf=off,slack=off", "", "", ""),
    ("watched", "slack=on", "", "", ""),
    ("watched, filled", "slack=on,fill=0x5a/0xa5", "", "", ""),
    ("watched, adaptive", "slack=on", "slack_every=1,uaf_share=100", "", ""),
    ("ordered", "streams=on", "", "", ""),
    ("skipped", "skip=smaller:16K", "", "", "--without graph"),
    ("packed", "small=pack", "", "", ""),
    ("packed, watched", "small=pack,slack=on", "slack_every=3,idle_age=1", "", ""),
]


def kinds_of(options):
    if options.native:
        return [kind for kind in SIMULATED if "--library" not in kind[4] and "--inject" not in kind[4]]
    if not options.gpu:
        return SIMULATED
    return [kind for kind in REAL if options.devices == 1 or "strict" not in kind[1]]


def chunk_of(options):
    return GPU_CHUNK if options.gpu else surroundings.CHUNK if options.player else CHUNK


def environment_of(options, **more):
    libraries = (options.build / "lib").resolve()
    folders = [libraries] if options.gpu else [(options.build / "tests" / "libcuda").resolve(), libraries]
    environment = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0", "TSAN_OPTIONS": "atexit_sleep_ms=0"} | os.environ | more
    environment["LD_LIBRARY_PATH"] = ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    if not options.gpu:
        environment["CUSIM_KERNELS"] = str(libraries / "libtorture_kernels.so")
    return environment


def program(options, first, count):
    return [str(options.build / "bin" / "torture"), "--first", str(first), "--count", str(count), *["--verbose"] * options.verbose]


def command(options, first, count):
    name, fence, figures, sim, arguments = kinds_of(options)[first // chunk_of(options) % len(kinds_of(options))]
    libraries = (options.build / "lib").resolve()
    argv = program(options, first, count) + arguments.split()
    if options.gpu:
        argv += ["--devices", str(options.devices), "--timed"]
    left_out = [defect for defect in options.without.split(",") if defect]
    if "stale" in left_out:  # cufence still gives the driver handles of things that are gone
        left_out.remove("stale")
        sim = sim.replace(",strict=1", "")
    if left_out:
        argv += ["--without", ",".join(left_out)]
    environment = environment_of(options, CUFENCE_OPTIONS=fence, CUFENCE_TUNABLES=figures, CUFENCE_SIM=sim, CUDA_DEVICE_MAX_CONNECTIONS="32")
    if "--library" in argv:
        argv.insert(argv.index("--library") + 1, str(libraries / "libcufence.so"))
        environment["CUFENCE_DRIVER"] = "libcuda.so.1"
    elif not options.native:
        failing = options.build / "lib" / "libfailing_malloc.so"
        inject = [str(failing.resolve())] if "--inject" in argv and failing.exists() and not options.has_sanitizer else []
        environment["LD_PRELOAD"] = ":".join([str(libraries / "libcufence_preload.so"), *inject])
    return name, argv, environment


def play(options, first, count):
    """Returns the failures of a chunk, as (seed, kind, why, all that was said), and how many seeds were played."""
    if options.player:
        return surroundings.play(options, first, count, program(options, first, count), environment_of(options, CUFENCE_SIM="devices=1"))
    failures, at, end = [], first, first + count
    while at < end:
        name, argv, environment = command(options, at, end - at)
        why, said = None, ""
        try:
            done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=options.patience, check=False)
            said, output = done.stderr.decode(errors="replace"), done.stdout.decode(errors="replace")
            if done.returncode:
                why = f"status {done.returncode}"
            elif "SUMMARY: " in said:
                why = "a report, and no fault"
            elif not output.endswith("done\n"):
                why = "it ended too early"
        except subprocess.TimeoutExpired as error:
            said, output = (error.stderr or b"").decode(errors="replace"), (error.stdout or b"").decode(errors="replace")
            why = f"no end within {options.patience} s"
        if options.verbose:
            sys.stderr.write(said)
        if not why:
            break
        seeds = re.findall(r"^seed (\d+)$", output, re.M)
        seed = int(seeds[-1]) if seeds else at
        told = re.findall(r"^FAILED.*$", said, re.M)
        text = told[-1] if told else why
        if len(told) > 1:  # what the report says comes before what it led to
            text += "; " + told[0].split(": ", 1)[-1]
            text += "".join(f": {line}" for line in re.findall(r"SUMMARY: (.*)", said)[:1])
        failures.append((seed, name, text, said))
        if len(failures) >= options.most or not seeds:
            break
        at = seed + 1
    return failures, count


def known_of(options):
    return surroundings.KNOWN if options.player else KNOWN


def show(options, failure, lines):
    seed, name, why, said = failure
    text = said.rstrip().splitlines()
    print(f"{why}   (seed {seed}, {name})", flush=True)
    if lines:
        print("\n".join(f"    {line}" for line in text[-lines:]))
        print(f"  again: tests/torture/torture.py{' --with surroundings' if options.player else ''} --build {options.build} --seed {seed}" +
              (f" --without '{options.without}'" if options.without != known_of(options) else "") +
              "; the seeds of its chunk before it are played too with --with-chunk", flush=True)


def run(options):
    """Plays seeds until their number or the time is up. Returns the failures and how many were played."""
    failures, played, started = [], 0, time.monotonic()
    first, last = options.first, options.first + options.seeds
    until = started + options.minutes * 60 if options.minutes else None
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = set()
        while first < last or waiting:
            is_over = (until and time.monotonic() > until) or len(failures) >= options.most
            while first < last and len(waiting) < options.jobs and not is_over:
                count = min(chunk_of(options) - first % chunk_of(options), last - first)
                waiting.add(pool.submit(play, options, first, count))
                first += count
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                found, count = future.result()
                played += count
                for failure in found:
                    show(options, failure, options.lines if len(failures) < 3 else 0)
                    failures.append(failure)
    return failures, played, time.monotonic() - started


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="player", choices=["surroundings"], help="hard surroundings: low limits, signals, ways to end, reports")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="play this one alone")
    parser.add_argument("--with-chunk", action="store_true", help="and those of its chunk before it")
    parser.add_argument("--minutes", type=float, help="end after so long")
    parser.add_argument("--jobs", type=int, help="chunks at once")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--without", help=f"names of what is left out (default: known defects: '{KNOWN}', with surroundings '{surroundings.KNOWN}'); '' plays all")
    parser.add_argument("--native", action="store_true", help="without cufence: the generator's own proof; graphs are left out, whose memory the simulated device keeps in its own way")
    parser.add_argument("--gpu", action="store_true", help="real GPUs")
    parser.add_argument("--devices", type=int, choices=(1, 2), help="with --gpu (1), and --json (1 and 2)")
    parser.add_argument("--json", type=pathlib.Path, help="play on GPUs, and write the results here")
    parser.add_argument("--most", type=int, default=10, help="failures to go on after")
    parser.add_argument("--lines", type=int, default=40, help="of a failure's steps to show")
    parser.add_argument("--patience", type=int, default=300, help="seconds for a chunk")
    parser.add_argument("--verbose", action="store_true", help="every step as it is played")
    options = parser.parse_args()
    cache = options.build / "CMakeCache.txt"
    options.has_sanitizer = cache.exists() and "-fsanitize" in cache.read_text()
    if options.without is None:
        options.without = "graph,pools,large" if options.native and not options.player else known_of(options)
    if options.json:
        options.gpu, options.most, options.patience = True, 3, 120
        options.minutes = options.minutes or float(os.environ.get("CUFENCE_TORTURE_MINUTES", "4"))
    if options.gpu:
        options.jobs = 1  # several at a time change a GPU's time from one to another
    if not options.jobs:
        options.jobs = (os.cpu_count() or 1) * (2 if options.player else 1)  # half of the time a seed waits
    if options.minutes and options.seeds == 2000:
        options.seeds = 1 << 40
    return options


def play_on_gpus(options):
    """Writes a case for each number of GPUs. Returns the exit status."""
    listed = subprocess.run("nvidia-smi -L", shell=True, stdout=subprocess.PIPE, text=True, errors="replace", check=False).stdout
    gpus, cases = len(re.findall("^GPU ", listed, re.M)), []
    for options.devices in [devices for devices in (1, 2) if devices <= gpus and options.devices in (None, devices)]:
        failures, played, seconds = run(options)
        detail = f"{played} seeds in {seconds:.0f} s, {len(failures)} failed"
        detail += "".join(f"\n{why} (seed {seed}, {kind})\n" + "\n".join(said.rstrip().splitlines()[-40:]) for seed, kind, why, said in failures)
        cases.append({"name": f"torture.{options.devices}_gpu", "ok": not failures and played > 0, "detail": detail})
        print(f"{'ok' if cases[-1]['ok'] else 'FAILED':8}{cases[-1]['name']}: {detail}", flush=True)
    options.json.write_text(json.dumps(cases, indent=1))
    return 0 if cases and all(case["ok"] for case in cases) else 1


def main():
    options = parse()
    if options.json:
        return play_on_gpus(options)
    options.devices = options.devices or 1
    if options.seed is not None:
        first = options.seed // chunk_of(options) * chunk_of(options) if options.with_chunk else options.seed
        failures, _ = play(options, first, options.seed + 1 - first)
        for failure in failures:
            show(options, failure, 10**6)
        print("failed" if failures else "passed")
        return 1 if failures else 0
    failures, played, seconds = run(options)
    print(f"torture: {played} seeds in {seconds:.0f} s, {len(failures)} failed", flush=True)
    return 1 if failures or not played else 0


if __name__ == "__main__":
    sys.exit(main())
