"""The cases of nan= and values=."""

from __future__ import annotations

from cases_alike import HOOKED, TORCH, TRITON, clean
from harness import Case


def _nan(name: str, kernel: str, **other: object) -> Case:
    """One launch makes a NaN; those behind it, which have it from there, are not reported."""
    report = [rf"\A==\d+== cufence: first NaN: {kernel}\S* writes \d+ NaN to buffer #\d+", *other.pop("report", [])]  # type: ignore[misc]
    options = {"nan": "report", **other.pop("options", {})}  # type: ignore[dict-item]
    return Case(name, report=report, status=86, options=options, ways=HOOKED, **other)  # type: ignore[arg-type]


CASES = [
    _nan("nan_eager_log", r"\S*elementwise", story="nan_eager", arguments=["log"], needs=TORCH, output=["sum is NaN: True"],
         report=[r"launched at\s+\S*nan_eager\.py:12\b", "element 3417 of float32"]),
    _nan("nan_eager_divide", r"\S*elementwise", story="nan_eager", arguments=["divide"], needs=TORCH, output=["sum is NaN: True"],
         report=[r"launched at\s+\S*nan_eager\.py:15\b", "element 3417 of float32"]),
    _nan("nan_eager_half", r"\S*elementwise", story="nan_eager", arguments=["half"], needs=TORCH, output=["sum is NaN: True"],
         report=[r"launched at\s+\S*nan_eager\.py:18\b", "of float16", "the inputs have Inf"]),
    _nan("nan_triton", "k_log", story="nan_triton", output=["element 4170 is NaN: True"],
         report=["element 4170 of float32", r"nan_triton\.py:{NAN}\b", "a logarithm or root of one is NaN",
                 r"written at\s+\S*nan_triton\.py:{LOG}\b", r"0\s+buffer #\d+ \+0, float32\[10000\]\s"]),
    *(
        _nan(f"nan_{how}_inputs", kernel, story="nan_inputs", arguments=[how], needs=needs, options={"uaf": "off"},
             output=["element 4170 is NaN: True"],
             report=["element 4170 of float32", "never written", "an input that nobody has written holds NaN"])
        for how, kernel, needs in (("eager", r"\S*elementwise", TORCH), ("triton", "k_log", TRITON))
    ),
    _nan("nan_compile", "triton_", story="nan_compile", output=["no NaN before: True", "NaN in column 5: True"],
         report=[r"nan_compile\.py:19\b", r"written at\s+\S+\.py:\d+"], seconds=400),
    Case("nan_stop", "nan_eager", ["log"], options={"nan": "stop"}, needs=TORCH, ways=HOOKED, report=["first NaN: "],
         error=["device-side assert triggered"]),
    *(
        clean(f"nan_clean_{nan}", ["finite: True"], story="nan_clean", options={"nan": nan}, ways=HOOKED, seconds=400)
        for nan in ("report", "stop")
    ),
    clean("nan_clean_training", [r"sha256 \w{64}"], story="clean_training", options={"nan": "report"}, is_as_native=True,
           ways=("run",), seconds=400),
    clean("values_clean_training", [r"sha256 \w{64}"], story="clean_training", is_as_native=True, ways=("run",), seconds=400,
           options={"values": "*softmax*|#1-2000=values.json"}),
    clean("values_signatures", ["all types agree"], story="values_figures", ways=("run",), needs=TRITON,
           seconds=400, options={"values": "k_*=values.json"}),
    clean("values_inductor", ["all types are signatures"], ways=("run",), needs=TRITON, seconds=400,
           options={"values": "triton_*=values.json"}),
]  # fmt: skip
