"""Names the arguments of a launch, from the compiled kernels that Triton (tried: 3.6 to 3.9), numba (numba-cuda 0.30) and Warp (1.19)
keep."""

from __future__ import annotations

import math
import re
import struct

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_HIDDEN_MOST = 2  # pointers to scratch memory that Triton adds behind the arguments
_TEXT_MOST = 40  # characters of a constant's value
# Of numbers that the launch passes in as many bytes; "nvTmaDesc" is a tensor map.
_SIZES = {"nvTmaDesc": 128, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^[>]*)\[([^\]]*)\](?:.*,input_rank=(\d+))?")
_FLOATS = {"fp16": ("<e", 2), "fp32": ("<f", 4), "fp64": ("<d", 8), "f32": ("<f", 4), "float32": ("<f", 4), "float64": ("<d", 8)}


def signature_of(kernel: Any) -> dict[str, Any] | None:
    """Returns parameter -> type, in order; "constexpr" for those that are compiled in, a tuple for a tuple. None if it has another
    form."""
    signature = getattr(vars(kernel).get("src"), "signature", None)
    return signature if isinstance(signature, dict) else None


def _arguments_of_numba(kernel: dict[str, Any]) -> list[tuple[str, str]] | None:
    """As _Kernel._prepare_args() passes them: an array is two pointers, size, size of an element, the data, shape and strides, of
    which only the data gets a name. None if one is passed in another way."""
    found: list[tuple[str, str]] = []
    names, kinds = kernel["py_func"].__code__.co_varnames, kernel["signature"].args
    for name, kind in zip(names, kinds) if not kernel.get("extensions") else ():
        if type(kind).__name__ == "Array":
            found += [("", "*"), ("", "*"), ("", "i64"), ("", "i64"), (name, f"*{kind.dtype}"), *[("", "i64")] * (2 * kind.ndim)]
        elif type(kind).__name__ in ("Integer", "IntegerLiteral", "Float", "Boolean"):
            found.append((name, str(kind)))
        else:
            return None
    return found


def _arguments_of_warp(kernel: dict[str, Any]) -> list[tuple[str, str]]:
    """Behind the bounds of the launch, those of the function; an array is a structure that begins with the address of its data."""
    kinds = (getattr(argument.type, "__name__", "array") for argument in kernel["adj"].args)
    return [("", "launch_bounds_t"), *zip(kernel["arg_indices"], kinds)]


def arguments_of(kernel: Any) -> list[tuple[str, str]] | None:
    """Returns name and type of what a launch passes, in order, without the scratch memory behind it: a tuple's elements, and a tensor
    descriptor as Triton's expand_signature() splits it. None if one has another form. What is of no interest has the name ""."""
    if "py_func" in vars(kernel):
        return _arguments_of_numba(vars(kernel))
    if "arg_indices" in vars(kernel):
        return _arguments_of_warp(vars(kernel))
    signature = signature_of(kernel)
    metadata = vars(kernel).get("metadata")
    has_maps = bool(getattr(metadata, "tensordesc_meta", None))
    flags = ("padding", "round_f32_to_tf32")[: 1 if str(getattr(metadata, "triton_version", "")).startswith("3.6.") else 2]
    found: list[tuple[str, str]] = []

    def add(name: str, kind: Any) -> None:
        if isinstance(kind, tuple):
            for at, inner in enumerate(kind):
                add(f"{name}.{kind._fields[at]}" if hasattr(kind, "_fields") else f"{name}[{at}]", inner)
            return
        descriptor = _DESCRIPTOR.match(kind)
        if descriptor is None:
            found.extend([(name, kind)] if kind != "constexpr" else [])
            return
        numbers = range(int(descriptor[3] or descriptor[2].count(",") + 1))
        shape, strides = ([f"{name}.{what}[{at}]" for at in numbers] for what in ("shape", "strides"))
        if has_maps:
            found.append((name, "nvTmaDesc"))
        else:
            found.extend([(name, f"*{descriptor[1]}"), *((each, "i64") for each in shape + strides)])
            found.extend((f"{name}.{flag}", "i1") for flag in flags)
        found.extend([*((each, "i32") for each in shape), *((each, "i64") for each in strides)])

    try:
        for name, kind in (signature or {}).items():
            add(name, kind)
    except TypeError:
        return None
    return found if signature is not None else None


def _constexprs_of(kernel: Any) -> dict[str, str]:
    """By name; their keys are paths: (2,) is the third parameter, longer ones lead into tuples."""
    names, constants = list(signature_of(kernel) or {}), getattr(vars(kernel).get("src"), "constants", {})
    texts = {key[0]: str(value) for key, value in constants.items() if isinstance(key, tuple) and len(key) == 1}
    return {names[at]: text for at, text in texts.items() if at < len(names) and len(text) <= _TEXT_MOST}


def _is_of(kernel: Any, symbol: str) -> bool:
    own = vars(kernel)
    if own.get("_mangled_name"):  # Warp's
        return symbol in [f"{own['_mangled_name']}_cuda_kernel_{way}" for way in ("forward", "backward")]
    return symbol in (own.get("name"), own.get("entry_name"), getattr(own.get("metadata"), "name", None))


def _of_as_many_warps(kernels: list[Any], report: dict[str, Any]) -> list[Any]:
    """Those whose number of warps fits the launch, or all of them if none does."""
    threads = math.prod(report.get("kernel", {}).get("block", []))
    fitting = [kernel for kernel in kernels if 32 * getattr(vars(kernel).get("metadata"), "num_warps", 0) == threads]
    return fitting or kernels


def _decode(value: str, size: int, kind: str) -> str:
    bits = int(value, 16)
    if kind in _FLOATS and _FLOATS[kind][1] == size:
        return repr(struct.unpack(_FLOATS[kind][0], bits.to_bytes(size, "little"))[0])
    if kind.startswith("i") and bits >> (8 * size - 1):
        bits -= 1 << 8 * size
    return hex(bits) if kind.startswith("*") else str(bits)


def _fits(arguments: list[tuple[str, str]], facts: list[dict[str, Any]]) -> bool:
    """Whether a launch of that layout, with or without scratch memory, passed these."""
    if not 0 <= len(facts) - len(arguments) <= _HIDDEN_MOST:
        return False
    sizes = (8 if kind[0] == "*" else _SIZES.get(kind) for _, kind in arguments)
    return all(size in (None, fact["size"]) for size, fact in zip(sizes, facts))


def _argument(number: int, name: str, kind: str, fact: dict[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {"number": number, "name": name, "type": kind}
    if kind in ("nvTmaDesc", "array"):
        fact = next((pointer for pointer in fact.get("pointers", []) if pointer["at"] == 0), fact)
    if "buffer" in fact:
        named |= {"buffer": fact["buffer"], "offset": fact["offset"]}
    elif "value" in fact:
        named["value"] = _decode(fact["value"], fact["size"], kind)
    return named


def look_up(report: dict[str, Any], kernels: list[Any]) -> dict[str, Any]:
    """Returns `arguments` (number, name, type, and buffer or value of each) and `constexprs` of the report's kernel. Empty
    unless all kernels that it can be agree on the names; constants on which they don't are left out."""
    symbol = report.get("kernel", {}).get("symbol")
    facts = report.get("arguments", {}).get("list", [])
    candidates = _of_as_many_warps([kernel for kernel in kernels if symbol and _is_of(kernel, symbol)], report)
    known: list[tuple[list[tuple[str, str]], dict[str, str]]] = []
    for kernel in candidates:
        arguments = arguments_of(kernel)
        if arguments is not None and (not facts or _fits(arguments, facts)):
            known.append((arguments, _constexprs_of(kernel)))
    if not known:
        return {}
    found: dict[str, Any] = {}
    arguments, constants = known[0]
    if facts and all(others == arguments for others, _ in known):
        found["arguments"] = [_argument(at, *argument, facts[at]) for at, argument in enumerate(arguments) if argument[0]]
    shared = {name: text for name, text in constants.items() if all(others.get(name) == text for _, others in known)}
    if shared:
        found["constexprs"] = shared
    return found
