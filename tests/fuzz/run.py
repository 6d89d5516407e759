"""Runs the fuzz targets of the preset `fuzz`, one at a time, and adds useful inputs to their corpora.

./dev fuzz [TARGET...] [--seconds N] builds them and calls this script. A finding ends its target's run, leaves the input in
build-fuzz/found, and sets the status to 1. All inputs that a target found are kept in build-fuzz/grown. Of these, the inputs
that libFuzzer needs for the same coverage go into the target's corpus, smallest first, as long as it is below 300 KB.
Inputs with a name of their own (not a hash) are always kept.

A corpus is an archive, tests/fuzz/corpus/TARGET.tar. `./dev fuzz --add TARGET FILE...` puts files into it.
"""
import argparse
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-fuzz"
CORPORA = ROOT / "tests" / "fuzz" / "corpus"
CORPUS_BYTES = 300_000
INPUT_BYTES = 60_000


def targets():
    return sorted(file.stem for file in CORPORA.glob("*.tar"))


def unpack(target, folder):
    """Writes the inputs of a corpus into a folder that holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if (CORPORA / f"{target}.tar").exists():
        with tarfile.open(CORPORA / f"{target}.tar") as archive:
            for member in archive:
                (folder / member.name).write_bytes(archive.extractfile(member).read())


def pack(target, folder):
    """The same inputs give the same bytes: no times, no owners, sorted by name."""
    with tarfile.open(CORPORA / f"{target}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(folder.iterdir()):
            member, content = tarfile.TarInfo(file.name), file.read_bytes()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def call(target, *arguments):
    """Runs the target's program at the lowest priority and returns its status and output."""
    environment = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1")
    command = ["nice", "-n", "19", str(BUILD / "bin" / f"fuzz_{target}"), *map(str, arguments)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.returncode, run.stdout.decode(errors="replace")


def fuzz(target, seconds):
    """Returns whether the target had no finding."""
    grown, found = BUILD / "grown" / target, BUILD / "found"
    for folder in (grown, found):
        folder.mkdir(parents=True, exist_ok=True)
    unpack(target, BUILD / "corpus" / target)
    status, output = call(target, f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1",
                          f"-artifact_prefix={found}/{target}-", grown, BUILD / "corpus" / target)
    done = re.search(r"^#(\d+)\s+DONE\s+cov: (\d+)", output, re.M)
    if status or not done:
        print(output[-6000:])
        print(f"{target}: FAILED; the input is in {found}")
        return False
    print(f"{target}: {int(done[1]):,} runs in {seconds} s, clean, {done[2]} edges covered", flush=True)
    return True


def keep(target):
    """Fills the target's corpus from the inputs found."""
    corpus, grown = BUILD / "corpus" / target, BUILD / "grown" / target
    with tempfile.TemporaryDirectory() as fresh:
        status, output = call(target, "-set_cover_merge=1", fresh, corpus, grown)
        if status:
            sys.exit(f"{target}: cannot be merged\n{output[-4000:]}")
        has_name = lambda file: not re.fullmatch("[0-9a-f]{40}", file.name)
        for file in corpus.iterdir():
            if not has_name(file):
                file.unlink()
        held = {file.read_bytes() for file in corpus.iterdir()}
        size = sum(map(len, held))
        for file in sorted(pathlib.Path(fresh).iterdir(), key=lambda file: (file.stat().st_size, file.name)):
            content = file.read_bytes()
            if content in held or len(content) > INPUT_BYTES or size + len(content) > CORPUS_BYTES:
                continue
            size += len(content)
            shutil.copyfile(file, corpus / file.name)
        pack(target, corpus)
    print(f"{target}: {len(list(corpus.iterdir()))} inputs in the corpus, {size:,} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="dev fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(targets()))
    parser.add_argument("--seconds", type=int, default=60, help="how long each target runs (60)")
    parser.add_argument("--add", nargs="+", metavar=("TARGET", "FILE"), help="put files into a target's corpus, and fuzz nothing")
    options = parser.parse_args()
    if options.add:
        target, *files = options.add
        folder = BUILD / "corpus" / target
        unpack(target, folder)
        for file in files:
            shutil.copy(file, folder)
        pack(target, folder)
        return
    for target in options.targets:
        if target not in targets():
            parser.error(f"there is no target {target}: {', '.join(targets())}")
    is_clean = True
    for target in options.targets or targets():
        if fuzz(target, options.seconds):
            keep(target)
        else:
            is_clean = False
    sys.exit(0 if is_clean else 1)


main()
