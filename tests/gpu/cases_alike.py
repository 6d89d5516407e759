"""What many of the stories' cases (cases.py) have in common."""

from __future__ import annotations

from harness import Case

ILLEGAL = [r"illegal memory access"]
TORCH = ("torch",)
TRITON = ("torch", "triton")
HOOKED = ("run", "backend")  # the driver's hooks, under PyTorch's own front end
ITSELF = ("itself",)


def overrun(name: str, kernel: str, block: str, size: int, **other: object) -> Case:
    story = str(other.pop("story", name))
    raises = str(other.pop("raises", "RAISES"))
    faults_in = "" if kernel != "k_oob" or story in ("triton_overrun", "compile_custom_op") else "k_oob.py"
    extra = other.pop("report", [])
    assert isinstance(extra, list)
    facts = [
        r"cufence: out-of-bounds READ of \d+ bytes",
        r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
        rf"buffer +#\d+, {size} bytes\b",
        rf"kernel +{kernel}\b.*exact",
        rf"{faults_in or story + '.py'}:{{FAULT}}\b",
        rf"block \({block}\) thread \(\d+,0,0\)",
        *extra,
    ]
    other.setdefault("error", ILLEGAL)
    return Case(name, story, report=facts, raises=raises, faults_in=faults_in, **other)  # type: ignore[arg-type]


def exited_warp(name: str, story: str, kernel: str, access: str, ways: tuple[str, ...]) -> Case:
    """The dump may have only an error PC: the line is then exact, the buffers are candidates."""
    facts = [
        rf"cufence: (out-of-bounds {access} of 4 bytes|illegal memory access)",
        rf"kernel +{kernel}\b.*exact",
        rf"{story}\.py:{{FAULT}}\b",
        r"\b0 bytes past the end of buffer #\d+|buffer +#\d+, .*candidate",
        r"buffer +#\d+, 4000 bytes\b",
    ]
    return Case(name, story, report=facts, error=ILLEGAL, raises="RAISES", ways=ways)


def rerun(name: str, kernel: str, access: str, width: int = 4) -> Case:
    """The same with the launch on record: the second launch tells address and thread."""
    facts = [
        rf"cufence: out-of-bounds {access} of {width} bytes, 0 bytes past the end of buffer #\d+ \(re-run\)",
        rf"kernel +{kernel}\b.*exact",
        rf"{name}\.py:{{FAULT}}\b",
        r"block \(7,0,0\) thread \(104,0,0\)",
        r"address .*re-run",
        r"written +\d bytes? past the end",
        rf"buffer +#\d+, {1000 * width} bytes\b",
    ]
    return Case(name, name, report=facts, error=ILLEGAL, raises="RAISES", ways=HOOKED)


def clean(name: str, output: list[str], **other: object) -> Case:
    story = str(other.pop("story", name))
    return Case(name, story, status=0, output=output, **{"needs": TORCH, **other})  # type: ignore[arg-type]
