"""The table of the Python stories: what each run must show. The stories themselves stand in stories/."""

from __future__ import annotations

from harness import Case

ILLEGAL = [r"illegal memory access"]
TORCH = ("torch",)
ITSELF = ("itself",)


def _overrun(name: str, kernel: str, block: str, size: int, **other: object) -> Case:
    story = str(other.pop("story", name))
    raises = str(other.pop("raises", "RAISES"))
    extra = other.pop("report", [])
    assert isinstance(extra, list)
    facts = [
        r"cufence: out-of-bounds READ of \d+ bytes",
        r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
        rf"buffer +#\d+, {size} bytes\b",
        rf"kernel +{kernel}\b.*exact",
        rf"{story}\.py:{{FAULT}}\b",
        rf"block \({block}\) thread \(\d+,0,0\)",
        *extra,
    ]
    return Case(name, story, report=facts, error=ILLEGAL, raises=raises, **other)  # type: ignore[arg-type]


def _exited_warp(name: str, kernel: str, access: str) -> Case:
    """The dump may hold an error PC only: the line is exact then, the buffers are candidates."""
    facts = [
        rf"cufence: (out-of-bounds {access} of 4 bytes|illegal memory access)",
        rf"kernel +{kernel}\b.*exact",
        rf"{name}\.py:{{FAULT}}\b",
        r"\b0 bytes past the end of buffer #\d+|buffer +#\d+, .*candidate",
        r"buffer +#\d+, 4000 bytes\b",
    ]
    return Case(name, name, report=facts, error=ILLEGAL, raises="RAISES")


FAULTS = [
    _overrun("triton_overrun", "k_oob", "7,0,0", 4000, report=[r"thread \(104,0,0\)"]),
    _exited_warp("triton_store_only", "k_store", "WRITE"),
    _exited_warp("triton_atomic", "k_atomic", "ATOMIC"),
    _overrun("graph_overrun", "k_oob", "7,0,0", 4000, output=["captured"]),
    _overrun("big_buffer", "k_big", "7168,0,0", 3670016),
    _overrun("fp16_odd", "k_half", "7,0,0", 2002, options={"align": "auto"}),
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
            r"into buffer #\d+, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"freed +\S+ \S+ ago by thread \d+",
            r"kernel +k_late\b.*exact",
            r"use_after_free\.py:{FAULT}\b",
        ],
        error=ILLEGAL,
        raises="RAISES",
        options={"uaf": "strict"},
    ),
    _overrun("other_stream_busy", "k_oob", "7,0,0", 4000, output=["busy when the fault came: True"]),
    _overrun("labels", "k_oob", "7,0,0", 4000, report=[r'label "batch 17"'], output=["described", "reported"], ways=ITSELF),
    *(
        _overrun(f"sync_{how}", "k_oob", "7,0,0", 4000, story="sync_points", arguments=[how], raises=f"RAISES {how}")
        for how in ("item", "cpu", "stream", "event")
    ),
    Case(
        "never_synchronises",
        "never_synchronises",
        status=86,
        report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b", r"never_synchronises\.py:{FAULT}\b"],
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
    Case("oom", "oom", [], 0, output=["filled up, not counting the error: True", "recovered"], needs=TORCH, ways=ITSELF),
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
        for uaf in ("off", "strict")
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

CASES = [*FAULTS, *CLEAN]
