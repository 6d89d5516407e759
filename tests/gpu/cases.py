"""What run.py runs: each row of the zoo, its twin, and what is no row of it. Stories are in stories/, programs in programs/."""

from __future__ import annotations

import re
from dataclasses import replace

from harness import RUNTIMES, Case
from zoo import BUGS, HOOKED, ROOMY, RUN, Bug, rerun

ILLEGAL = [r"illegal memory access|ILLEGAL_ADDRESS"]
TORCH = ("torch",)
TRITON = ("torch", "triton")
ITSELF = ("itself",)
CUBLAS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
TWO_RANKS = {"launcher": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], "needs": ("torch", "two GPUs")}

# ---- rows of the zoo ----


def needs_of(bug: Bug) -> tuple[str, ...]:
    if not bug.is_python:
        return ()
    if bug.program == "pool_overrun.py":
        return bug.arguments[:1]
    by = {"CuPy": ("cupy",), "JAX": ("jax", "nvcc"), "numba": ("numba",)}.get(bug.framework)
    return by or (TRITON if re.search("triton|k_oob", bug.source.read_text()) else TORCH)


def options_of(bug: Bug) -> dict[str, str]:
    """The row has them as words of `cufence run`."""
    words = bug.own
    return dict([words[1].split("=", 1)] if words[:1] == ("--set",) else [(words[0].lstrip("-"), words[1])] if words else [])


def case_of(bug: Bug) -> Case:
    source = bug.source.read_text()
    facts = bug.facts()
    return Case(
        bug.case or bug.name.replace(" ", "_"),
        bug.program,
        ["{nvcc}" if word == "nvcc" else word for word in bug.arguments],
        bug.status,
        facts,
        frozenset(facts.asked | ({"distance"} if bug.distance is not None else set())) - set(bug.lacks),
        list(bug.says),
        output=list(bug.prints),
        error=ILLEGAL if bug.is_python and bug.status == 1 else [],
        raises="RAISES" if "# RAISES\n" in source and bug.status == 1 else None,
        options=options_of(bug),
        ways=bug.ways or (("enable", *HOOKED) if bug.is_python else RUNTIMES),
        needs=needs_of(bug),
        seconds=400 if "compile" in bug.program else 180,
    )


def cases_of(bug: Bug) -> list[Case]:
    """Without the driver's hooks no launch is on record, and the last instruction of a kernel cannot be launched again: enable() is a case
    of its own, where the dump may lack the thread, and of such an instruction all but its line."""
    case = case_of(bug)
    if "enable" not in case.ways:
        return [case]
    unknown = {"thread", "buffer", "distance"} if bug.access == "atomic" else {"thread"}
    hooked = tuple(way for way in case.ways if way != "enable")
    return [replace(case, ways=("enable",), named=case.named - unknown), replace(case, ways=hooked)]


def twin_of(bug: Bug) -> Case:
    program = bug.twin_program or bug.program
    case = case_of(bug)
    name = "_".join((program.rpartition(".")[0], *bug.twin))
    options = {} if bug.twin_program else case.options
    return Case(name, program, list(bug.twin), 0, output=[bug.right], options=options, ways=case.ways, needs=case.needs)


# unwritten.py and aoti.py have some; of a row whose program ends with 0 nothing is found
ROWS = [bug for bug in BUGS if bug.status and bug.program not in ("unwritten.cu", "aoti_overrun.py")]
TWINS = {twin.name: twin for twin in map(twin_of, (bug for bug in ROWS if bug.right and ROOMY[0] not in bug.twin))}
TWINS["tensor_map_good"].error.append("tensor maps: 1 of guarded buffers, of which 0")
STORE_ONLY = next(bug for bug in BUGS if bug.name == "triton_store_only")
ZOO = [
    *(case for bug in ROWS for case in cases_of(bug)),
    *TWINS.values(),
    replace(case_of(STORE_ONLY), name="triton_store_unrecorded", ways=("enable",), named=frozenset({"kernel", "line"}), report=[r"buffer +#\d+, 4000 bytes\b"]),
]

# ---- more programs ----


def _program(name: str, program: str = "", **facts: object) -> Case:
    return Case(name, f"{program or name}.cu", **{"ways": RUNTIMES, "needs": (), **facts})  # type: ignore[arg-type]


def _bug(program: str, kind: str, kernel: str, mark: str, thread: str, *says: str, **more: object) -> Case:
    """A row that the matrix does not have."""
    facts = {"access": "", "bytes": 0, "what": "overrun", "lacks": (), "prints": (), **more}
    return case_of(Bug(f"{program} {kind}", f"{program}.cu", (kind,), facts.pop("what"), kernel, mark, thread=thread, says=says, **facts))  # type: ignore[arg-type]


_PLACE = r"block \({},0,0\) thread \({},0,0\)"
_LAST = "7,0,0 104,0,0"
SECOND_LAUNCH = [
    case_of(rerun("store_1", "write", 1, written=r"1 byte past the end: .*07", thread="7,0,0 112,0,0", bytes=1008)),  # no slack behind 1008
    case_of(rerun("far_away", "write", 4)),
    # cp.async, which reads: the warp waits for it, so the dump may tell all, and then nothing is launched again.
    *(_bug("rerun", f"copy_{width}", f"copy_{width}", "copy", _LAST, rf"READ of {width} bytes, 0 bytes past the end of buffer #1\b",
           r"address .*(re-run|derived|exact)", "LDGSTS", access="read", bytes=1000 * width) for width in (4, 8, 16)),
    # The pointer comes from a variable of the module, which the second launch must have.
    *(_bug("variables", kind, kernel, kernel, _LAST, r"WRITE of 4 bytes, 0 bytes past the end of buffer #1\b", r"written +4 bytes past the end: 2\.5 +re-run")
      for kind, kernel in (("device", "by_variable"), ("kernel", "by_variable"), ("struct", "by_struct"), ("constant", "by_constant"), ("value", "by_value"))),
    _bug("variables", "unset", "by_variable", "", "", "null-pointer WRITE of 4 bytes"),
    # For a trap the driver's dump has no exception, but a warp that has stopped; for an infinite recursion local memory (H100, driver 580.159).
    _bug("exceptions", "trap_last", "trap_last", "trap_last", "1,0,0 1,0,0", "exception: trap", "the kernel trapped by itself", what="trap",
         prints=("cudaErrorLaunchFailure",)),
    _bug("exceptions", "shared", "shared_store", "shared", "0,0,0 33,0,0", "exception: out-of-range address", "outside the shared memory of its block", what="trap",
         prints=("cudaError",)),
    _bug("exceptions", "recursion", "recursion", "", "", "exception: out-of-range address", "outside the local memory of its thread: its stack", "a recursion",
         what="trap"),
]  # fmt: skip

# The five hang, and the driver ends them for its dump; their twins take some seconds less than what is waited for.
STUCK = {
    "branch": [r"stuck\.cu:{BRANCH}\b", r"stuck\.cu:{BARRIER}\b", r"in a loop until a value in shared memory changes", r"at a barrier; 128 other threads have not come"],
    "grid": [r"at \S*stuck\.cu:{GRID} in wait_for_last_block", r"address +0x\w+, byte 64 of buffer #1\b", r"blocks +(\d+) of \d+ are there; from \(\1,0,0\) on, they have not begun, or have ended"],
    "hostflag": [r"at \S*stuck\.cu:{HOSTFLAG} in wait_for_host", r"byte 12 of pinned host memory; it holds 0", r"may write it: .*the host"],
    "streams": [r"at \S*stuck\.cu:{STREAMS} in (left|right)_waits", r"left_waits<<<.*threads left", r"right_waits<<<.*threads left", r"may write it: .*(left|right)_waits, which"],
    "coop": [r"perhaps where the blocks of this cooperative launch meet", r"blocks +7 are there; \(5,0,0\) has ended"],
}
WAITING = [
    *(_program(f"stuck_{name}", "stuck", arguments=[name], status=2, ways=("static",), options={"stuck": "3"}, output=["cudaErrorLaunchFailure"], report=[
        r"cufence: stuck: \d+ threads? ", r"all \d+\s+threads", r'"kind": ?"stuck"', *says]) for name, says in STUCK.items()),
    *(_program(f"slow_{name}", "stuck", arguments=[name, "slow"], status=0, ways=("static",), options={"stuck": "3"}, output=["right"]) for name in STUCK),
]

PROGRAMS = [
    *SECOND_LAUNCH,
    *WAITING,
    _program(
        "overrun",
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +add_next\b.*exact",
            r"overrun\.cu:{FAULT}\b",
            r"block \(7,0,0\) thread \(103,0,0\)",
            r"allocated at  (?!.*cudaMalloc).*main",  # the native stack, without the runtime's own frames
        ],
        output=["cudaDeviceSynchronize: cudaErrorIllegalAddress", "cudaGetLastError: cudaErrorIllegalAddress"],
    ),
    # What cufence does after a fault; the program looks at no error.
    *(_program(f"overrun_{name}", "overrun", arguments=["careless"], options=options, status=status, report=[r"cufence: out-of-bounds READ"])
      for name, options, status in (("careless", {}, 86), ("exitcode", {"on_fault": "/41"}, 41), ("continue", {"on_fault": "continue/0"}, 0),
                                    ("abort", {"on_fault": "abort"}, -6))),
    _program("overrun_off", "overrun", options={"explain": "off"}, report=[r"cufence: unexplained fault on the GPU", r'"kind": ?"unexplained"'],
             output=["cudaDeviceSynchronize: cudaErrorIllegalAddress"]),
    _program(
        "example_fault",
        "fault",
        report=[
            r"cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #\d+",
            r"kernel +shift\b.*",
            r"fault\.cu:{FAULT}\b",
            r"block \(24,0,0\) thread \(39,0,0\)",
        ],
        output=["an illegal memory access was encountered"],
    ),
    # Before the driver begins the dump, while it writes it, and shortly before the end.
    *(_program(f"exits_after_{delay}_ms", "exits", arguments=[str(delay)], status=86, report=[
        r"cufence: out-of-bounds READ of 4 bytes", r"kernel +increment\b", r"exits\.cu:{FAULT}\b"]) for delay in (0, 5, 10, 20, 40, 80)),
    # The same natively, without its argument: how much the driver itself uses.
    _program(
        "stacks",
        arguments=["guarded"],
        status=86,
        report=[r"cufence: double free by cuMemFree", r"called at +(\S+ in )?work\b.*\n==\d+== +(\S+ in )?work_on_thread\b"],
        reports=2,  # on the thread and in a fibre, whose frames differ; the second fibre's are the first one's
        output=[r"(second free: cudaErrorInvalidValue\n(\w+ fibre: \d+ bytes of stack\n)?){3}"],
    ),
    *(_program(name, "clean", status=0, options=options, output=[r"plain\nstream-ordered\ngraph\nreset\nplain\n", "graph\ndone"], allocations=400)
      for name, options in (("clean", {}), ("clean_strict", {"uaf": "strict"}))),
    # Natively they fit many times, in whole pages not at all: they share pages, or with small=map what has no room is left to the
    # driver, and so is what the options name.
    *(_program(name, "small_ones", status=0, options=options, output=["100000 buffers are right", "and once more"], error=error, allocations=allocations,
               is_alone=True, seconds=600) for name, options, error, allocations in (
        ("small_ones", {}, [r"no faults; 133,339 allocations guarded", r"packed: 1[23]\d,\d{3} allocations"], 133339),
        ("small_ones_map", {"small": "map"}, ["device 0 has no room left for whole pages of 2 MiB", r"not guarded: [\d,]+ buffers for whose pages of 2 MiB"], 10000),
        ("small_ones_min_size", {"skip": "smaller:64K"}, [r"not guarded: 133,33\d buffers smaller than skip=smaller"], 3),
        ("small_ones_skip", {"skip": "lib:small_ones*;lib:libcudart*"}, [r"not guarded: 133,3\d\d buffers that skip names"], 0))),
    _program("leak_off", "leak", status=0, output=["done"], allocations=4),
    _program("nan_half", "nan", arguments=["half"], status=86, options={"nan": "report"}, output=["done"], report=[
        r"\A==\d+== cufence: first NaN: attend writes 1 NaN to buffer #\d+, first to element 41700 of float16\[100000\]", r'"index": ?41700']),
    *(_program(f"rerun_{kind}_roomy", "rerun", arguments=[kind, "roomy"], status=0, output=["cudaSuccess"]) for kind in ("pinned", "registered", "managed")),
    _program("ipc", output=["cudaIpcGetMemHandle: cudaErrorInvalidValue"], error=["ipc=driver"]),
    _program("ipc_driver", "ipc", status=0, options={"ipc": "driver"}, output=["cudaIpcGetMemHandle: cudaSuccess"], allocations=0),
]  # fmt: skip

# ---- more stories ----


def overrun(name: str, story: str = "", **other: object) -> Case:
    """One of k_oob's, on 1000 floats."""
    extra = other.pop("report", [])
    assert isinstance(extra, list)
    facts = [
        r"cufence: out-of-bounds READ of \d+ bytes",
        r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
        r"buffer +#\d+, 4000 bytes\b",
        r"kernel +k_oob\b.*exact",
        r"k_oob\.py:{FAULT}\b",
        _PLACE.format(7, r"\d+"),
        *extra,
    ]
    return Case(name, f"{story or name}.py", report=facts, **{"error": ILLEGAL, "raises": "RAISES", **other})  # type: ignore[arg-type]


def clean(name: str, output: list[str], story: str = "", **other: object) -> Case:
    return Case(name, f"{story or name}.py", status=0, output=output, **{"needs": TORCH, **other})  # type: ignore[arg-type]


def _nan(name: str, kernel: str, story: str, report: list[str], **other: object) -> Case:
    """One launch makes a NaN; those behind it, which have it from there, are not reported."""
    head = rf"\A==\d+== cufence: first NaN: {kernel}\S* writes \d+ NaN to buffer #\d+"
    options = {"nan": "report", **other.pop("options", {})}  # type: ignore[dict-item]
    return Case(name, f"{story}.py", report=[head, *report], status=86, options=options, ways=HOOKED, **other)  # type: ignore[arg-type]


STORIES = [
    Case("slack_writes", "slack_writes.py", status=86, reports=2, output=["clean: True", "in front: True", "behind: True", "still clean: True"], report=[
        r"cufence: slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #\d+", r"buffer +#\d+, 4096 bytes\b", r"found +00 00 00 00"]),
    Case(
        "packed_writes",
        "packed_writes.py",
        status=86,
        report=[
            r"cufence: slack WRITE: 1 byte changed, 1 byte before the start of buffer #\d+",
            r"slack WRITE: 1 byte changed, 0 bytes past the end of buffer #\d+",
            r"buffer +#\d+, 1000 bytes\b",
            r"found +41[\s\S]*given to +k_put<<<.*re-run",
        ],
        output=["packed: True", "clean: True", "in front: True", "behind: True", "neighbours: True", "still clean: True"],
        reports=2,
        ways=HOOKED,  # enable() sees no launches
        options={"small": "pack"},
    ),
    overrun("other_stream_busy", "oob", arguments=["other_stream"], output=["busy when the fault came: True"]),
    overrun("labels", report=[r'label "batch 17"'], output=["described", "reported"], ways=ITSELF),
    # The lines may be wrapped, so each fact is short. Without the driver's hooks no launch is on record, and the arguments have no names.
    *(Case(name, "names_parameter.py", error=ILLEGAL, raises="RAISES", ways=ways, report=[
        r"cufence: out-of-bounds READ of \d+ bytes", r"\b0 bytes past the end of buffer #\d+.*(exact|derived)", r"buffer +#\d+, 38400 bytes\b",
        r"kernel +k_row\b.*exact", r"names_parameter\.py:{FAULT}\b", _PLACE.format(0, r"\d+"),
        r"buffer #\d+ is model\.1\.weight \(parameter\)", r"element \[100, \d+\]", *more,
    ]) for name, ways, more in (
        ("names_parameter", HOOKED, (r"float32\[100, 96\]", r"arguments of k_row: weight = buffer #\d+", r"BLOCK = 128")), ("names_enable", ("enable",), ()))),
    overrun("names_local", "oob", arguments=["local"], raises="RAISES local", ways=HOOKED,
            report=[r"buffer #\d+ is batch\['ids'\] in step", r"float32\[1000\]", r"x = buffer #\d+", r"n = 1000"],
            error=[*ILLEGAL, r"\ncufence: buffer #\d+ is batch\['ids'\] in step"]),  # the note, behind the traceback
    *(overrun(f"sync_{how}", "oob", arguments=[how], raises=f"RAISES {how}") for how in ("item", "cpu", "stream", "event")),
    overrun("forked", "oob", arguments=["forked"], ways=HOOKED),
    Case("never_synchronises", "oob.py", ["never"], 86, report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b", r"k_oob\.py:{FAULT}\b"]),
    Case("enable_after_cuda", "enable_after_cuda.py", error=[r"RuntimeError: cufence\.enable\(\) comes too late: .*before the first CUDA tensor"],
         raises="RAISES", needs=TORCH, ways=ITSELF),
]  # fmt: skip

CLEAN = [
    clean("clean_training", [r"sha256 \w{64}"], is_as_native=True, allocations=10_000),
    clean("clean_inference", [r"sha256 \w{64}"], is_as_native=True, allocations=1000),
    *(clean(f"streams_clean_{uaf}", ["300 sums are right"], "streams_clean", allocations=300, options={"uaf": uaf}) for uaf in ("off", "adaptive", "strict")),
    clean("autograd_threads", ["400 backward passes are right"], allocations=400),
    # PyTorch as used in practice, under the driver's hooks.
    *(clean(name, output, ways=HOOKED, **more) for name, output, more in (
        ("cuda_graph_clean", ["100 replays are right"], {}),
        ("compile_default", ["compiled equals eager"], {"needs": TRITON, "seconds": 400}))),
    *(clean(f"dataloader_{how}", ["two epochs are right"], "dataloader_workers", arguments=[how], ways=HOOKED) for how in ("fork", "spawn")),
    clean("fork_after_import", ["the worker is right", "the program is right"], "dataloader_workers", arguments=["early"], allocations=4, ways=HOOKED),
    # Two GPUs. NCCL shares its own buffers in two ways.
    *(clean(name, [r"sha256 \w{64}"], "ddp", arguments=[kind], environment=environment, options=options, is_as_native=True, allocations=400, ways=HOOKED,
            **TWO_RANKS) for name, kind, environment, options in (
        ("ddp_cumem", "ddp", {"NCCL_CUMEM_ENABLE": "1"}, {}), ("ddp_ipc", "ddp", {"NCCL_CUMEM_ENABLE": "0"}, {}), ("ddp_streams", "ddp", {}, {"streams": "on"}),
        ("fsdp", "fsdp", CUBLAS, {}), ("fsdp_streams", "fsdp", CUBLAS, {"streams": "on"}))),
    *(clean(f"two_gpus_peers_{peers}", ["copies are right", r"sha256 \w{64}"], "two_gpus", options={"peers": peers}, is_as_native=True, allocations=50,
            needs=("torch", "two GPUs"), ways=HOOKED) for peers in ("auto", "on")),
    # Lifetime across streams.
    *(clean(f"streams_{how}", ["20 sums"], "streams_race", arguments=[how], options={"streams": "on"}, ways=HOOKED) for how in ("record", "wait", "synchronise")),
    clean("streams_prefetch_host", ["learned True"], "streams_prefetch", options={"streams": "on+host"}, ways=HOOKED),
    clean("streams_prefetch", ["learned True"], options={"streams": "on"}, ways=HOOKED),
    *(clean(f"{name}_streams", output, name, options={"streams": "on"}, ways=HOOKED) for name, output in (
        ("clean_training", [r"sha256 \w{64}"]), ("streams_clean", ["300 sums are right"]), ("cuda_graph_clean", ["100 replays are right"]),
        ("autograd_threads", ["400 backward passes are right"]))),
    # Other libraries. JAX alone: without cufence, it allocates three quarters of the GPU's memory.
    clean("jax_clean", [r"learned \d"], is_as_native=True, is_alone=True, needs=("jax",), ways=RUN),
    clean("cupy_clean", ["30 products are right"], needs=("cupy",), ways=RUN),
]  # fmt: skip

PYTORCH = [
    Case("compile_triton_op", "compile_custom_op.py", ["triton_op"], error=ILLEGAL, raises="RAISES", ways=HOOKED, seconds=400, report=[
        r"cufence: out-of-bounds READ of \d+ bytes", r"\b0 bytes past the end of buffer #\d+", r"buffer +#\d+, 4000 bytes\b", r"kernel +k_oob",
        r"at +\S+\.py:\d+"]),  # Inductor writes the kernel into a file of its own
    overrun("torchrun", "oob", arguments=["rank"], launcher=TWO_RANKS["launcher"], options={"log": "report-%r.txt"}, output=["rank 0 is done"], ways=HOOKED,
            files={"report-1.txt": [r"\A==\d+== cufence: [^\n]*\n(==\d+== [^\n]*\n)?[^\n]*rank 1\b", r"k_oob\.py:{FAULT}\b"]}),
    overrun("as_module", "oob", is_module=True, arguments=["module", "-f", "connection.json"], output=[r"__main__ oob \['-f', 'connection.json'\]"], ways=HOOKED),
    # In one process, the fault destroys the context, so the third test fails because of the second.
    Case("pytest", "test_overrun.py", launcher=["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"], output=["illegal memory access", "2 failed, 1 passed"],
         report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b.*exact", r"k_oob\.py:{FAULT}\b"], needs=(*TRITON, "pytest"), ways=HOOKED),
    Case("pytest_cufence", "test_overrun.py", launcher=["-m", "pytest", "--cufence", "-q", "-p", "no:cacheprovider"], needs=(*TRITON, "pytest"), ways=("wheel",),
         output=[r"(?s)_ test_wrong _.*cufence: out-of-bounds READ.*kernel +k_oob\b.*k_oob\.py:{FAULT}\b", "1 failed, 2 passed"]),
    Case("host_copies_result", "host_copies.py", ["result"], 86, options={"streams": "on+host"}, output=["4 sums"], needs=TORCH, ways=HOOKED, report=[
        r"stream race by Tensor\.numpy: reads 16 bytes of pinned memory", r"host_copies\.py:{RESULT}\b", r"in use by +cuMemcpy(HtoD|DtoH)Async +derived"]),
    clean("cupy_pool_right", ["neighbours are as they were: True"], "pool_overrun", arguments=["cupy", "right"], needs=("cupy",), ways=RUN),
    *(Case(f"poison_{how}", "poison_rows.py", [how], status, output=["sums are right: True", said], report=report, options={"nan": "report"}, needs=TORCH, ways=RUN)
      for how, status, said, report in (
        ("right", 0, "check: 0", []),
        ("write", 86, "check: 1", [r"WRITE to poisoned memory: 4 bytes changed, from byte 28 of the 16384 poisoned ones on, in buffer #1\b"]),
        ("read", 86, "read: nan", [r"first NaN: \S*elementwise\S* writes 4096 NaN", r"launched at\s+\S*poison_rows\.py:29\b"]))),
]  # fmt: skip

VALUES = [
    _nan("nan_eager_half", r"\S*elementwise", "nan_eager", [r"launched at\s+\S*nan_eager\.py:{NAN half}\b", "of float16", "the inputs have Inf"],
         arguments=["half"], needs=TORCH, output=["sum is NaN: True"]),
    _nan("nan_triton", "k_log", "nan_triton", ["element 4170 of float32", r"nan_triton\.py:{NAN}\b", "a logarithm or root of one is NaN",
         r"0\s+buffer #\d+ \+0, float32\[10000\]\s"], output=["element 4170 is NaN: True"]),
    *(_nan(f"nan_{how}_inputs", kernel, "nan_inputs", ["element 4170 of float32", "never written", "an uninitialised input holds NaN"],
           arguments=[how], needs=needs, options={"uaf": "off"}, output=["element 4170 is NaN: True"])
      for how, kernel, needs in (("eager", r"\S*elementwise", TORCH), ("triton", "k_log", TRITON))),
    _nan("nan_compile", "triton_", "nan_compile", [r"nan_compile\.py:19\b"],
         output=["no NaN before: True", "NaN in column 5: True"], seconds=400),
    Case("nan_stop", "nan_eager.py", ["log"], options={"nan": "stop"}, needs=TORCH, ways=HOOKED, report=["first NaN: "], error=["device-side assert triggered"]),
    *(clean(f"nan_clean_{nan}", ["finite: True"], "nan_clean", options={"nan": nan}, ways=HOOKED, seconds=400) for nan in ("report", "stop")),
    *(clean(f"{name}_clean_training", [r"sha256 \w{64}"], "clean_training", options=options, is_as_native=True, ways=RUN, seconds=400) for name, options in (
        ("nan", {"nan": "report"}), ("values", {"values": "*softmax*|#1-2000=values.json"}))),
    clean("values_signatures", ["all types agree"], "values_figures", ways=RUN, needs=TRITON, seconds=400, options={"values": "k_*=values.json"}),
    clean("values_inductor", ["all types are signatures"], ways=RUN, needs=TRITON, seconds=400, options={"values": "triton_*=values.json"}),
]  # fmt: skip

CASES = sorted([*ZOO, *PROGRAMS, *STORIES, *CLEAN, *PYTORCH, *VALUES], key=lambda case: case.is_python)
