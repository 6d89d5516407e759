"""Tells the library the names and types of the arguments of Triton's kernels, when Triton or Inductor loads one.

The library uses them for --values and --nan. The hooks cost nothing elsewhere: a kernel is loaded once.
"""

from __future__ import annotations

import re

from . import _kernels, _library

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

# A pointer, a number, or a tensor map.
_PLAIN = re.compile(r"\*k?([iu]|fp|bf)\d+\w*|[ui]\d+|fp\d+|bf16|f32|f64|nvTmaDesc")
_NAME = re.compile(r"[^\s]+")


def text_of(arguments: list[tuple[str, str]]) -> str | None:
    """Returns the lines for the library; None if one of the types is passed in another way."""
    if not all(_PLAIN.fullmatch(kind) and _NAME.fullmatch(name) for name, kind in arguments):
        return None
    return "\n".join(f"{name} {kind}" for name, kind in arguments)


def _tell(handle: Any, symbol: Any, arguments: list[tuple[str, str]]) -> None:
    text = text_of(arguments)
    library = _library.loaded() if isinstance(handle, int) and handle and isinstance(symbol, str) else None
    if text and library is not None:
        library.cufence_torch_kernel(handle, symbol.encode(), text.encode())


def of_inductor(result: Any) -> list[tuple[str, str]]:
    """Returns the same of a kernel that Inductor launches without Triton's launcher. Empty unless it agrees with the number of
    arguments that Inductor passes."""
    meta = result.compile_meta
    signature, constants = meta.get("signature", {}), meta.get("constants", {})
    left_out = {key[0] if isinstance(key, tuple) else key for key in constants}
    found = [
        (name, kind)
        for at, (name, kind) in enumerate(signature.items())
        if kind != "constexpr" and name not in left_out and at not in left_out
    ]
    return found if len(found) == len(result.kernel.arg_tys) else []


def _tell_compiled(kernel: Any) -> None:
    own = vars(kernel)
    arguments = _kernels.arguments_of(kernel) or []
    _tell(own.get("function"), getattr(own.get("metadata"), "name", None) or own.get("name"), arguments)


def _tell_inductor(result: Any) -> None:
    kernel = result.kernel
    for handle in (kernel.function, *getattr(kernel, "functions", {}).values()):  # of each device, where it is for any
        _tell(handle, kernel.name, of_inductor(result))


# The methods that load a kernel, by module: class, method, and what tells of the method's object.
METHODS = {
    "triton.compiler.compiler": ("CompiledKernel", "_init_handles", _tell_compiled),
    "torch._inductor.runtime.triton_heuristics": ("StaticTritonCompileResult", "make_launcher", _tell_inductor),
}
