"""The table of the Python stories: what each run must show. The stories are in stories/."""

from __future__ import annotations

import cases_cause
import cases_freed
import cases_pools
import cases_values
from cases_alike import HOOKED, ILLEGAL, ITSELF, TORCH, TRITON, clean, exited_warp, overrun, rerun
from harness import Case

FAULTS = [
    overrun("triton_overrun", "k_oob", "7,0,0", 4000, report=[r"thread \(104,0,0\)"]),
    exited_warp("triton_store_unrecorded", "triton_store_only", "k_store", "WRITE", ("enable",)),
    rerun("triton_store_only", "k_store", "WRITE"),
    rerun("triton_store_half", "k_store_half", "WRITE", 2),
    exited_warp("triton_atomic", "triton_atomic", "k_atomic", "ATOMIC", ("enable", *HOOKED)),
    overrun("graph_overrun", "k_oob", "7,0,0", 4000, output=["captured"]),
    overrun("big_buffer", "k_big", "7168,0,0", 3670016),
    overrun("fp16_odd", "k_half", "7,0,0", 2002, options={"align": "auto"}),
    Case(
        "underrun",
        "underrun",
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b4 bytes before the start of buffer #\d+",
            r"buffer +#\d+, 4096 bytes\b",
            r"kernel +k_before\b.*exact",
            r"underrun\.py:{FAULT}\b",
            r"block \(0,0,0\) thread \(0,0,0\)",
        ],
        error=ILLEGAL,
        raises="RAISES",
        options={"side": "start"},
    ),
    Case(
        "use_after_free",
        "use_after_free",
        report=[
            r"cufence: use-after-free READ of \d+ bytes",
            r"into buffer #\d+(?: \"[^\"]*\")?, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"freed +\S.* ago by thread \d+",
            r"kernel +k_late\b.*exact",
            r"use_after_free\.py:{FAULT}\b",
        ],
        error=ILLEGAL,
        raises="RAISES",
        options={"uaf": "strict"},
    ),
    Case(
        "late_in_a_loop",
        "late_in_a_loop",
        report=[
            r"cufence: use-after-free READ of \d+ bytes",
            r"into buffer #\d+(?: \"[^\"]*\")?, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"allocated at +\S*late_in_a_loop\.py:{ALLOCATED}\b",
            r"freed +\S.* ago by thread \d+ on stream 0x[0-9a-f]+,\s+(?:==\d+==\s+)?about \d+ allocations ago",
            r"freed at +\S*late_in_a_loop\.py:{FREED}\b",
            r"late_in_a_loop\.py:{FAULT}\b",
        ],
        error=ILLEGAL,
        raises="RAISES",
    ),
    *cases_cause.STORIES,
    *cases_freed.STORIES,
    Case(
        "slack_writes",
        "slack_writes",
        status=86,
        report=[
            r"cufence: slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #\d+",
            r"buffer +#\d+, 4096 bytes\b",
            r"found +00 00 00 00",
        ],
        output=["clean: True", "in front: True", "behind: True", "still clean: True"],
        reports=2,
    ),
    Case(
        "packed_writes",
        "packed_writes",
        status=86,
        report=[
            r"cufence: slack WRITE: 1 byte changed, 1 byte before the start of buffer #\d+",
            r"slack WRITE: 1 byte changed, 0 bytes past the end of buffer #\d+",
            r"buffer +#\d+, 1000 bytes\b",
            r"found +41[\s\S]*given to +k_put<<<.*re-run",
        ],
        output=["packed: True", "clean: True", "in front: True", "behind: True", "neighbours: True", "still clean: True"],
        reports=2,
        ways=("run", "backend"),  # enable() sees no launches
        options={"small": "pack"},
    ),
    overrun("other_stream_busy", "k_oob", "7,0,0", 4000, output=["busy when the fault came: True"]),
    overrun("labels", "k_oob", "7,0,0", 4000, report=[r'label "batch 17"'], output=["described", "reported"], ways=ITSELF),
    # The lines may be wrapped, so each fact is short.
    overrun(
        "names_parameter",
        "k_row",
        "0,0,0",
        100 * 96 * 4,
        report=[
            r"buffer #\d+ is model\.1\.weight \(parameter\)",
            r"float32\[100, 96\]",
            r"element \[100, \d+\]",
            r"arguments of k_row: weight = buffer #\d+",
            r"BLOCK = 128",
        ],
        ways=HOOKED,
    ),
    # Without the driver's hooks no launch is on record, and the arguments have no names.
    overrun(
        "names_enable",
        "k_row",
        "0,0,0",
        100 * 96 * 4,
        story="names_parameter",
        report=[r"buffer #\d+ is model\.1\.weight \(parameter\)", r"element \[100, \d+\]"],
        ways=("enable",),
    ),
    overrun(
        "names_local",
        "k_oob",
        "7,0,0",
        4000,
        report=[r"buffer #\d+ is batch\['ids'\] in step", r"float32\[1000\]", r"x = buffer #\d+", r"n = 1000"],
        error=[*ILLEGAL, r"\ncufence: buffer #\d+ is batch\['ids'\] in step"],  # the note, behind the traceback
        ways=HOOKED,
    ),
    *(
        overrun(f"sync_{how}", "k_oob", "7,0,0", 4000, story="sync_points", arguments=[how], raises=f"RAISES {how}")
        for how in ("item", "cpu", "stream", "event")
    ),
    overrun("forked", "k_oob", "7,0,0", 4000, story="sync_points", arguments=["forked"], raises="RAISES forked", ways=HOOKED),
    Case(
        "never_synchronises",
        "never_synchronises",
        status=86,
        report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b", r"k_oob\.py:{FAULT}\b"],
        faults_in="k_oob.py",
    ),
]

CLEAN = [
    Case(
        "clean_training",
        "clean_training",
        status=0,
        output=[r"sha256 \w{64}"],
        is_as_native=True,
        allocations=10_000,
        needs=TORCH,
    ),
    Case(
        "clean_inference",
        "clean_inference",
        status=0,
        output=[r"sha256 \w{64}"],
        is_as_native=True,
        allocations=1000,
        needs=TORCH,
    ),
    Case(
        "oom",
        "oom",
        status=0,
        output=["filled up, not counting the error: True", "recovered"],
        is_alone=True,
        needs=TORCH,
        ways=ITSELF,
    ),
    Case("graph_clean", "graph_clean", [], 0, output=["100 replays are right", "released"], needs=TORCH, ways=ITSELF),
    *(
        Case(
            f"streams_clean_{uaf}",
            "streams_clean",
            status=0,
            output=["300 sums are right"],
            allocations=300,
            needs=TORCH,
            options={"uaf": uaf},
        )
        for uaf in ("off", "adaptive", "strict")
    ),
    Case(
        "enable_after_cuda",
        "enable_after_cuda",
        error=[r"RuntimeError: cufence\.enable\(\) comes too late: .*before the first CUDA tensor"],
        raises="RAISES",
        needs=TORCH,
        ways=ITSELF,
    ),
]

# PyTorch as used in practice, under the driver's hooks.
PYTORCH = [
    clean(
        "memory_figures",
        [
            "allocated bytes are exact",
            "the peak follows, and is reset",
            "empty_cache gives back",
            "mem_get_info tells the truth",
            "the fraction holds: CUDA out of memory.* allowed; ",
            "everything is freed",
        ],
        is_alone=True,
        ways=HOOKED,
    ),
    clean(
        "oom_recovers",
        [
            "torch's own text: CUDA out of memory. Tried to allocate",
            "filled up, not counting the error: True",
            "cached before the large one: True",
            "recovered",
        ],
        is_alone=True,
        ways=HOOKED,
    ),
    clean("cuda_graph_clean", ["100 replays are right"], ways=HOOKED),
    clean(
        "graph_recapture",
        ["40 graphs are right", r"at most 0\.\d\d of", r"came back after \d+ ms"],
        is_alone=True,
        ways=HOOKED,
    ),
    clean("compile_default", ["compiled equals eager"], needs=TRITON, ways=HOOKED, seconds=400),
    clean(
        "compile_reduce_overhead",
        ["reduce-overhead is right", "in CUDA graphs"],
        error=[r"(?s)\A(?!.*Warning: cufence)"],
        needs=TRITON,
        ways=HOOKED,
        seconds=400,
    ),
    overrun("compile_custom_op", "k_oob", "7,0,0", 4000, arguments=["custom_op"], ways=HOOKED, seconds=400),
    Case(
        "compile_triton_op",
        "compile_custom_op",
        ["triton_op"],
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b0 bytes past the end of buffer #\d+",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +k_oob",
            r"at +\S+\.py:\d+",  # Inductor writes the kernel into a file of its own
        ],
        error=ILLEGAL,
        raises="RAISES",
        ways=HOOKED,
        seconds=400,
    ),
    *(
        clean(f"dataloader_{how}", ["two epochs are right"], story="dataloader_workers", arguments=[how], ways=HOOKED)
        for how in ("fork", "spawn")
    ),
    clean(
        "fork_after_import",
        ["the worker is right", "the program is right"],
        story="dataloader_workers",
        arguments=["early"],
        allocations=4,
        ways=HOOKED,
    ),
    clean("autograd_threads", ["400 backward passes are right"], allocations=400),
    overrun(
        "torchrun",
        "k_oob",
        "7,0,0",
        4000,
        launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
        options={"log": "report-%r.txt"},
        output=["rank 0 is done"],
        files={"report-1.txt": [r"\A==\d+== cufence: [^\n]*\n(==\d+== [^\n]*\n)?[^\n]*rank 1\b", r"k_oob\.py:{FAULT}\b"]},
        ways=HOOKED,
    ),
    *(
        Case(
            f"ddp_{how}",
            "ddp",
            status=0,
            launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
            environment={"NCCL_CUMEM_ENABLE": value},
            output=[r"sha256 \w{64}"],
            is_as_native=True,
            allocations=400,
            needs=("torch", "two GPUs"),
            ways=HOOKED,
        )
        for how, value in (("cumem", "1"), ("ipc", "0"))  # how NCCL shares its own buffers
    ),
    *(
        Case(
            f"two_gpus_peers_{peers}",
            "two_gpus",
            status=0,
            options={"peers": peers},
            output=["copies are right", r"sha256 \w{64}"],
            is_as_native=True,
            allocations=50,
            needs=("torch", "two GPUs"),
            ways=HOOKED,
        )
        for peers in ("auto", "on")
    ),
    overrun(
        "as_module",
        "k_oob",
        "7,0,0",
        4000,
        is_module=True,
        arguments=["-f", "connection.json"],
        output=[r"__main__ as_module \['-f', 'connection.json'\]"],
        ways=HOOKED,
    ),
    Case(
        "pytest",
        "test_overrun",
        launcher=["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"],
        report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b.*exact", r"k_oob\.py:{FAULT}\b"],
        faults_in="k_oob.py",
        # In one process, the fault destroys the context, so the third test fails because of the second.
        output=["illegal memory access", "2 failed, 1 passed"],
        needs=("torch", "triton", "pytest"),
        ways=HOOKED,
    ),
    Case(
        "pytest_cufence",
        "test_overrun",
        launcher=["-m", "pytest", "--cufence", "-q", "-p", "no:cacheprovider"],
        output=[
            r"(?s)_ test_wrong _.*cufence: out-of-bounds READ.*kernel +k_oob\b.*k_oob\.py:{FAULT}\b",
            "1 failed, 2 passed",
        ],
        faults_in="k_oob.py",
        needs=("torch", "triton", "pytest"),
        ways=("wheel",),
    ),
]

# Lifetime across streams.
STREAMS = [
    Case(
        "streams_race",
        "streams_race",
        arguments=["race"],
        options={"streams": "on"},
        status=86,
        report=[
            r"cufence: stream race by (cuMemFreeAsync|PyTorch's allocator): frees buffer #\d+ on stream 0x[0-9a-f]+, which .* may still use",
            r"called at +\S*streams_race\.py:{FAULT}\b",
            r"in use by +\S+.*derived",
            r"from +\S*(streams_race|_tensor|functional)\.py:\d+",
            r"buffer +#\d+, 4004 bytes\b",
            r"hint +call tensor\.record_stream",
        ],
        output=["20 sums"],
        needs=TORCH,
        ways=HOOKED,
    ),
    *(
        clean(f"streams_{how}", ["20 sums"], story="streams_race", arguments=[how], options={"streams": "on"}, ways=HOOKED)
        for how in ("record", "wait", "synchronise")
    ),
    *(
        Case(
            f"host_copies_{how}",
            "host_copies",
            arguments=[how],
            options={"streams": "on+host"},
            status=86,
            report=[what, rf"host_copies\.py:{line}\b", r"in use by +cuMemcpy(HtoD|DtoH)Async +derived"],
            output=["4 sums"],
            needs=TORCH,
            ways=HOOKED,
        )
        for how, what, line in (
            ("staging", r"stream race by cuMemcpyHtoDAsync: finds a change in 4194304 bytes of pinned memory", "{STAGING}"),
            ("result", r"stream race by Tensor\.numpy: reads 16 bytes of pinned memory", "{RESULT}"),
        )
    ),
    clean("host_copies_right", ["4 sums"], story="host_copies", arguments=["right"], options={"streams": "on+host"}, ways=HOOKED),
    clean("triton_tensor_map_right", ["equal"], story="triton_tensor_map", arguments=["right"]),
    Case(
        "triton_tensor_map_large",
        "triton_tensor_map",
        arguments=["large"],
        raises="RAISES",
        report=[
            r"triton_tensor_map\.py:{FAULT}\b",
            r"instruction +UTMALDG\.2D \[UR",
            r"argument 0 is a tensor map, \[512, 64\] of 4 bytes in buffer #\d+, 65536 bytes\s",
        ],
        needs=TRITON,
        ways=HOOKED,
    ),
    clean("streams_prefetch_host", ["learned True"], story="streams_prefetch", options={"streams": "on+host"}, ways=HOOKED),
    clean("streams_prefetch", ["learned True"], options={"streams": "on"}, ways=HOOKED),
    *(
        clean(f"{name}_streams", output, story=name, options={"streams": "on"}, ways=HOOKED)
        for name, output in (
            ("clean_training", [r"sha256 \w{64}"]),
            ("streams_clean", ["300 sums are right"]),
            ("cuda_graph_clean", ["100 replays are right"]),
            ("autograd_threads", ["400 backward passes are right"]),
        )
    ),
    *(
        Case(
            f"fsdp{'_streams' if options else ''}",
            "fsdp",
            status=0,
            launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
            environment={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            options=options,
            output=[r"sha256 \w{64}"],
            is_as_native=True,
            allocations=400,
            needs=("torch", "two GPUs"),
            ways=HOOKED,
        )
        for options in ({}, {"streams": "on"})
    ),
    Case(
        "ddp_streams",
        "ddp",
        status=0,
        launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
        options={"streams": "on"},
        output=[r"sha256 \w{64}"],
        is_as_native=True,
        needs=("torch", "two GPUs"),
        ways=HOOKED,
    ),
]

OTHERS = [
    Case(
        "jax_overrun",
        "jax_overrun",
        arguments=["{nvcc}"],
        faults_in="jax_kernel.cu",
        report=[
            r"cufence: out-of-bounds READ of 4 bytes",
            r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
            r"buffer +#\d+, 4096 bytes\b",
            r"kernel +k_oob\b.*exact",
            r"jax_kernel\.cu:{FAULT}\b",
            r"block \(8,0,0\) thread \(0,0,0\)",
        ],
        output=["right without a surplus"],
        error=[r"illegal memory access|ILLEGAL_ADDRESS"],
        raises="RAISES",
        needs=("jax", "nvcc"),
        ways=("run",),
    ),
    # Alone: without cufence, JAX allocates three quarters of the GPU's memory.
    clean("jax_clean", [r"learned \d"], is_as_native=True, is_alone=True, needs=("jax",), ways=("run",)),
    Case(
        "cupy_overrun",
        "cupy_overrun",
        report=[
            r"cufence: out-of-bounds READ of 4 bytes",
            r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +k_oob\b.*exact",
            r"at +\S*\.cu:\d+",
            r"block \(7,0,0\) thread \(104,0,0\)",
        ],
        error=ILLEGAL,
        raises="RAISES",
        needs=("cupy",),
        ways=("run",),
    ),
    clean("cupy_clean", ["30 products are right"], needs=("cupy",), ways=("run",)),
    clean("cupy_pool", ["used and reserved bytes are the driver's"], needs=("cupy",), ways=("run",)),
    *cases_pools.STORIES,
]

CASES = [*FAULTS, *CLEAN, *PYTORCH, *STREAMS, *OTHERS, *cases_values.CASES]
