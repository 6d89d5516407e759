"""The contract: plays each promise of build/bin/contract natively and guarded, and compares the lines.

    python3 tests/contract/contract.py                     on this machine's GPUs: what must be equal is equal
    python3 tests/contract/contract.py free_pool info      these promises
    python3 tests/contract/contract.py --record            also writes expected.txt: what a GPU does natively
    python3 tests/contract/contract.py --sim               on the simulated device, natively and guarded: both as in expected.txt

The exit status is 1 if a promise is broken, else 0. A promise that needs more GPUs than there are is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
EXPECTED = FOLDER / "expected.txt"


TEXTURE = "cuTexObjectCreate(&texture, &linear, &description, NULL): "
WORKS = [TEXTURE + "SUCCESS", "7 7", "cuTexObjectDestroy(texture): SUCCESS"]
# What cufence does otherwise by choice: the page that says so, and the lines instead.
CHOICES = {
    "alignment": ("docs/promises.md: align=16", ["cuMemAlloc: less than 256", "cuMemAllocAsync: less than 256"]),
    "texture_odd": ("docs/promises.md: align=16", [TEXTURE + "INVALID_VALUE"]),
    "texture_odd_again": ("docs/promises.md: align=16; the place of allocation gets what it needs", [TEXTURE + "INVALID_VALUE", *WORKS, *WORKS]),
    "full_queue_own": (
        "docs/promises.md: a check of slack is work of the stream",
        ["cuMemAllocAsync(&pointer, 4096, queue.full): SUCCESS, waits", "cuMemFreeAsync(pointer, queue.full): SUCCESS, waits"],
    ),
    "ipc_handle": ("docs/promises.md: ipc=refuse", ["cuIpcGetMemHandle(&handle, pointer): INVALID_VALUE"]),
}


@dataclass
class Promise:
    name: str
    gpus: int
    sentence: str


@dataclass
class Played:
    """What one run printed, and its exit status as a last line if that is not 0."""

    lines: list[str]
    errors: str
    seconds: float


@dataclass
class Result:
    name: str
    ok: bool | None
    detail: str
    native: Played | None = None
    guarded: Played | None = None


def promises(program: Path, environment: dict[str, str]) -> list[Promise]:
    listed = subprocess.run([program, "--list"], env=environment, capture_output=True, text=True, check=True).stdout
    rows = (line.split(" ", 2) for line in listed.splitlines())
    return [Promise(name, int(gpus), sentence) for name, gpus, sentence in rows]


def play(command: list[str], environment: dict[str, str], seconds: float) -> Played:
    began = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        lines, errors, status = done.stdout.splitlines(), done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode(errors="replace").splitlines()
        errors, status = (late.stderr or b"").decode(errors="replace"), "none in time"
    return Played(lines + ([f"status {status}"] if status != 0 else []), errors, time.monotonic() - began)


def differences(wanted: list[str], got: list[str], who: str) -> list[str]:
    rows = []
    for i in range(max(len(wanted), len(got))):
        one, other = (lines[i] if i < len(lines) else "nothing" for lines in (wanted, got))
        if one != other:
            rows.append(f"{one}  |  {who}: {other}")
    return rows


def read_expected() -> dict[str, list[str]]:
    """Returns the lines of each promise. [name] begins one; lines before the first say where they were recorded."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in EXPECTED.read_text().splitlines():
        if line.startswith("["):
            lines = found.setdefault(line[1:-1], [])
        else:
            lines.append(line)
    return found


def write_expected(results: list[Result], head: str) -> None:
    """Replaces the lines of the promises that were played; keeps the others."""
    lines = read_expected() if EXPECTED.exists() else {}
    lines.update({result.name: result.native.lines for result in results if result.native})
    EXPECTED.write_text(head + "".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines[name]) for name in sorted(lines)))


def devices() -> list[str]:
    rows = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.splitlines()
    return [row for row in rows if row.startswith("GPU")]


class Player:
    """Plays promises on lanes: each GPU plays one at a time, since some look at its memory; one that needs two has both."""

    def __init__(self, options: argparse.Namespace) -> None:
        build = options.build.resolve()
        self.program = build / "bin/contract"
        self.command = [str(build / "bin/cufence"), "run", "--set", "say=quiet,on_fault=error/0"] + [f"--set={option}" for option in options.set] + ["--"]
        self.environment = dict(os.environ)
        self.is_sim = options.sim
        self.seconds = options.seconds
        self.expected = read_expected()
        if options.sim:
            self.environment["LD_LIBRARY_PATH"] = f"{build}/tests/libcuda:{build}/lib"
        self.lanes = options.jobs if options.sim else len(devices())

    def surroundings(self, promise: Promise, lane: int) -> dict[str, str]:
        if self.is_sim:
            return {**self.environment, "CUFENCE_SIM": f"devices={promise.gpus},memory=80G"}
        return {**self.environment, **({"CUDA_VISIBLE_DEVICES": str(lane)} if promise.gpus == 1 else {})}

    def play(self, promise: Promise, lane: int) -> Result:
        if promise.gpus > (8 if self.is_sim else self.lanes):
            return Result(promise.name, None, f"it needs {promise.gpus} GPUs")
        result = self.play_once(promise, lane)
        if result.ok is False and result.native and not self.is_sim and result.native.lines != self.expected.get(promise.name):
            return self.play_once(promise, lane)  # natively it was not as on record: some lines say what took long
        return result

    def play_once(self, promise: Promise, lane: int) -> Result:
        environment = self.surroundings(promise, lane)
        native = play([str(self.program), promise.name], environment, self.seconds)
        guarded = play([*self.command, str(self.program), promise.name], environment, self.seconds)
        wanted = self.expected.get(promise.name) if self.is_sim else native.lines
        if wanted is None:
            return Result(promise.name, False, "no GPU has played it: it is not in expected.txt", native, guarded)
        why, chosen = CHOICES.get(promise.name, ("", wanted))
        wrong = differences(chosen, guarded.lines, "guarded")
        if self.is_sim:
            wrong = differences(wanted, native.lines, "simulated") + wrong
        if not wrong:
            return Result(promise.name, True, f"otherwise by choice, {why}" if why else "", native, guarded)
        return Result(promise.name, False, "; ".join(wrong[:3]) + (f"; {len(wrong) - 3} more" if len(wrong) > 3 else ""), native, guarded)

    def play_all(self, wanted: list[Promise], show: bool) -> list[Result]:
        results: list[Result] = []
        waiting: queue.SimpleQueue[Promise] = queue.SimpleQueue()
        lock = threading.Lock()

        def add(result: Result) -> None:
            with lock:
                results.append(result)
                tell(result, show)

        def lane(number: int) -> None:
            while True:
                try:
                    promise = waiting.get_nowait()
                except queue.Empty:
                    return
                add(self.play(promise, number))

        for promise in wanted:
            if promise.gpus == 1 or self.is_sim:
                waiting.put(promise)
        threads = [threading.Thread(target=lane, args=(number,)) for number in range(max(self.lanes, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for promise in wanted:
            if promise.gpus > 1 and not self.is_sim:
                add(self.play(promise, 0))
        return sorted(results, key=lambda result: result.name)


def tell(result: Result, show: bool) -> None:
    word = {True: "kept", False: "BROKEN", None: "skipped"}[result.ok]
    print(f"{word:8} {result.name}{': ' + result.detail if result.detail else ''}", flush=True)
    if show or result.ok is False:
        for who, played in (("native", result.native), ("guarded", result.guarded)):
            if played and show:
                print("".join(f"    {who}: {line}\n" for line in played.lines), end="", flush=True)
            if played and (who == "guarded" or show):
                print("".join(f"    {who}, stderr: {line}\n" for line in played.errors.splitlines()[-8:]), end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="PROMISE")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--sim", action="store_true", help="on the simulated device; lines as in expected.txt")
    parser.add_argument("--jobs", type=int, default=4, help="with --sim: how many at a time")
    parser.add_argument("--seconds", type=float, default=60, help="how long a run may take")
    parser.add_argument("--record", action="store_true", help="write what is played natively to expected.txt")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="cufence's options")
    parser.add_argument("--json", type=Path, help="write the results here, for ./dev gpu-test")
    parser.add_argument("--show", action="store_true", help="print all lines")
    options = parser.parse_args()
    player = Player(options)
    known = promises(player.program, {**player.environment})
    unknown = set(options.names) - {promise.name for promise in known}
    if unknown:
        parser.error(f"no such promise: {', '.join(sorted(unknown))}")
    if not options.sim and not player.lanes:
        print("no GPU here: --sim plays them on the simulated device", file=sys.stderr)
        return 2
    results = player.play_all([p for p in known if not options.names or p.name in options.names], options.show)
    broken = sum(result.ok is False for result in results)
    if options.record:
        write_expected(results, f"Recorded natively by contract.py --record: {devices()[0].split(' (UUID')[0]}.\n")
    if options.json:
        rows = [{"name": f"contract.{result.name}", "ok": result.ok, "detail": result.detail} for result in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{sum(result.ok is True for result in results)} promises kept, {broken} broken, {sum(result.ok is None for result in results)} skipped")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
