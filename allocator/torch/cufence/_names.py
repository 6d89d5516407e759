"""Finds the tensors in the buffers of a report, and the names by which the program knows them.

Looks at Python objects only: shapes, strides and addresses. Never reads a tensor's data, calls the driver, or imports torch:
the context has failed by then. Takes SECONDS at most, apart from the list of all objects, which the garbage collector makes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import time

from . import _kernels, _library

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType
    from typing import Any

SECONDS = 0.5
_TENSORS_SHOWN = 3  # of a buffer: the rest are mostly views
_NAMES_SHOWN = 3  # of a tensor
_ELEMENTS_SEARCHED = 1000  # of a list, tuple or dict in a variable
_DEPTH = 64  # of nested modules
_INSIDE = 1  # CUFENCE_PLACE_INSIDE
_KERNELS = (("CompiledKernel", "triton"), ("_Kernel", "numba"), ("Kernel", "warp"))  # their classes, and of which packages

# What a name is, best first.
_RANKS = ("parameter", "buffer", "gradient", "local", "global", "optimizer state")


class _Buffers:
    """The live buffers that a report mentions."""

    def __init__(self, report: dict[str, Any]) -> None:
        facts = [report.get("buffer"), *report.get("candidates", {}).get("buffers", [])]
        live = [fact for fact in facts if fact and "freed" not in fact and "address" in fact]
        self.ids: dict[int, int] = {int(fact["address"], 16): fact["id"] for fact in live}  # by address
        self.owner = live[0] if facts[0] in live else None  # the buffer that the access was meant for
        for argument in report.get("arguments", {}).get("list", []):
            if "buffer" in argument and "value" in argument:
                self.ids.setdefault(int(argument["value"], 16) - argument["offset"], argument["buffer"])

    def of(self, storage: int) -> int | None:
        """Returns the number of the buffer in which a storage begins."""
        found = self.ids.get(storage)
        if found is None and self.owner and 0 <= storage - int(self.owner["address"], 16) < self.owner["size"]:
            found = self.owner["id"]
        return found if found is not None and _is_still(storage, found) else None


def _is_still(address: int, buffer: int) -> bool:
    """Whether that buffer is at the address now: it may have been freed since the report, and another has its place."""
    library, here = _library.loaded(), _library.Description()
    if library is None:
        return True
    return library.cufence_describe(address, ctypes.byref(here)) == 0 and (here.place, here.buffer.id) == (_INSIDE, buffer)


def _has_torch() -> bool:
    return hasattr(sys.modules.get("torch"), "nn")


def _storage_of(tensor: Any) -> int | None:
    """Returns the address of a CUDA tensor's storage. None for others, and for copy-on-write ones, which asking would copy."""
    try:
        if not tensor.is_cuda or sys.modules["torch"]._C._is_cow_tensor(tensor):
            return None
        address: int = tensor.untyped_storage().data_ptr()
        return address or None
    except Exception:  # a subclass, sparse, or already released
        return None


class _Survey:
    """All tensors, modules, optimizers and compiled kernels (_KERNELS) that the garbage collector knows, until a time."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.tensors: list[Any] = []
        self.modules: list[Any] = []
        self.optimizers: list[Any] = []
        self.kernels: list[Any] = []
        homes: dict[int, list[Any] | None] = {}  # by the identity of a type, whose hash might be the program's code
        for at, thing in enumerate(gc.get_objects()):
            if at % 4096 == 0 and self.is_over():
                return
            kind = type(thing)
            if id(kind) not in homes:
                homes[id(kind)] = None
                with contextlib.suppress(Exception):
                    homes[id(kind)] = self._home_of(kind)
            home = homes[id(kind)]
            if home is not None:
                home.append(thing)

    def is_over(self) -> bool:
        return time.monotonic() > self.end

    def _home_of(self, kind: type) -> list[Any] | None:
        if (kind.__name__, str(kind.__module__).partition(".")[0]) in _KERNELS:
            return self.kernels
        if not _has_torch():
            return None
        torch = sys.modules["torch"]
        optimizer = getattr(sys.modules.get("torch.optim"), "Optimizer", ())
        for base, home in ((torch.Tensor, self.tensors), (torch.nn.Module, self.modules), (optimizer, self.optimizers)):
            if issubclass(kind, base):
                return home
        return None


def _add_frozen(survey: _Survey, frames: list[FrameType]) -> None:
    """Adds modules that are reached from the frames' variables: gc.freeze() hides objects from the survey."""
    module_class = sys.modules["torch"].nn.Module
    known = {id(module) for module in survey.modules}
    waiting: list[Any] = []
    for frame in frames:
        for value in list(frame.f_locals.values()):
            waiting.append(value)
            if _has_fields(value):
                waiting.extend(list(vars(value).values()))
    while waiting:
        thing = waiting.pop()
        if issubclass(type(thing), module_class) and id(thing) not in known:
            known.add(id(thing))
            survey.modules.append(thing)
            waiting.extend(list(thing.__dict__.get("_modules", {}).values()))


def _has_fields(value: Any) -> bool:
    """Whether it is an object of a class of the program, whose fields can be read without running code of it."""
    kind = type(value)
    return not isinstance(value, type) and kind.__module__ != "builtins" and type(getattr(value, "__dict__", None)) is dict


def _scopes(frames: list[FrameType]) -> list[tuple[Mapping[str, Any], str, str]]:
    """Returns the frames' variables, what they are, and where; and those of the program's main module."""
    found: list[tuple[Mapping[str, Any], str, str]] = []
    for frame in frames:
        code = frame.f_code
        if frame.f_locals is not frame.f_globals and code.co_name != "<module>":
            found.append((frame.f_locals, "local", f"{code.co_name}, {_base(code.co_filename)}:{frame.f_lineno}"))
        if not any(scope is frame.f_globals for scope, *_ in found):
            found.append((frame.f_globals, "global", _base(code.co_filename)))
    main = sys.modules.get("__main__")
    if main is not None and not any(scope is vars(main) for scope, *_ in found):
        found.append((vars(main), "global", _base(getattr(main, "__file__", None) or "__main__")))
    return found


class _Names:
    """Collects names of the tensors in the buffers."""

    def __init__(self, buffers: _Buffers, survey: _Survey, frames: list[FrameType]) -> None:
        self.buffers, self.survey, self.scopes = buffers, survey, _scopes(frames)
        self.found: dict[int, tuple[int, Any]] = {}  # by the identity of a tensor: its buffer and itself
        self.names: dict[int, list[dict[str, Any]]] = {}
        self.parents: dict[int, tuple[Any, str]] = {}  # by the identity of a module or parameter: the module that has it, and as what
        for tensor in survey.tensors:
            if survey.is_over():
                return
            self._find(tensor)

    def _find(self, tensor: Any) -> bool:
        if id(tensor) in self.found:
            return True
        storage = _storage_of(tensor)
        buffer = self.buffers.of(storage) if storage is not None else None
        if buffer is not None:
            self.found[id(tensor)] = (buffer, tensor)
        return buffer is not None

    def _add(self, tensor: Any, name: str, what: str, where: str | None = None) -> None:
        known = self.names.setdefault(id(tensor), [])
        entry = {"name": name, "what": what} | ({"where": where} if where else {})
        if entry not in known:
            known.append(entry)

    def _is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), sys.modules["torch"].Tensor) and self._find(value)

    def take_all(self) -> None:
        for take in (self._take_modules, self._take_variables, self._take_optimizers):
            with contextlib.suppress(Exception):  # the objects are the program's, and may be in any state
                take()

    # ---- modules ----

    def _variable_of(self, module: Any) -> str | None:
        names = (str(name) for scope, *_ in self.scopes for name, value in list(scope.items()) if value is module and name != "self")
        return next(names, None)

    def _qualified(self, parameter: Any) -> str:
        """Returns "model.layers.3.weight", or "layers.3.weight of a Net" if no variable holds the outermost module."""
        module, name = self.parents[id(parameter)]
        for _ in range(_DEPTH):
            if id(module) not in self.parents:
                break
            module, own = self.parents[id(module)]
            name = f"{own}.{name}"
        variable = self._variable_of(module)
        return f"{variable}.{name}" if variable else f"{name} of a {type(module).__name__}"

    def _take_modules(self) -> None:
        for module in self.survey.modules:
            for name, child in list(module.__dict__.get("_modules", {}).items()):
                if child is not None:
                    self.parents.setdefault(id(child), (module, name))
        for module in self.survey.modules:
            if self.survey.is_over():
                return
            for what in ("parameter", "buffer"):
                for name, tensor in list(module.__dict__.get(f"_{what}s", {}).items()):
                    if tensor is None:
                        continue
                    self.parents[id(tensor)] = module, name
                    if self._find(tensor):
                        self._add(tensor, self._qualified(tensor), what)
                    gradient = tensor.grad if what == "parameter" and tensor.is_leaf else None
                    if gradient is not None and self._find(gradient):
                        self._add(gradient, f"{self._qualified(tensor)}.grad", "gradient")

    # ---- variables ----

    def _inside(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Yields the tensors in a variable, with their names: itself, elements, and fields of an object."""
        if self._is_tensor(value):
            yield name, value
        elif type(value) in (list, tuple) and len(value) <= _ELEMENTS_SEARCHED:
            yield from ((f"{name}[{at}]", element) for at, element in enumerate(value) if self._is_tensor(element))
        elif issubclass(type(value), dict) and len(value) <= _ELEMENTS_SEARCHED:
            for key, element in list(dict.items(value)):
                if self._is_tensor(element) and type(key) in (str, int):
                    yield f"{name}[{key!r}]", element
        elif _has_fields(value) and not issubclass(type(value), sys.modules["torch"].nn.Module):
            for key, element in list(vars(value).items()):
                if self._is_tensor(element):
                    yield f"{name}.{key}", element

    def _take_variables(self) -> None:
        for scope, what, where in self.scopes:
            if self.survey.is_over():
                return
            for name, value in list(scope.items()):
                if not name.startswith("__"):
                    for full, tensor in self._inside(name, value):
                        self._add(tensor, full, what, where)

    # ---- optimizers ----

    def _take_optimizers(self) -> None:
        for optimizer in self.survey.optimizers:
            for parameter, state in list(dict.items(vars(optimizer).get("state", {}))):
                if self.survey.is_over():
                    return
                if not isinstance(state, dict):
                    continue
                for key, tensor in list(state.items()):
                    if self._is_tensor(tensor):
                        of = f" of {self._qualified(parameter)}" if id(parameter) in self.parents else ""
                        self._add(tensor, f"{key}{of}", "optimizer state", type(optimizer).__name__)


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _index(tensor: Any, address: int, storage: int) -> list[int] | None:
    """Returns the indices of the element at an address, as the shape and strides continue beyond the end of the first
    dimension. None if there are no such."""
    rest = (address - storage) // tensor.element_size() - tensor.storage_offset()
    shape, strides = list(tensor.shape), list(tensor.stride())
    if rest < 0 or 0 in shape or any(stride <= 0 for stride in strides):
        return None
    indices = [0] * len(shape)
    for dimension in sorted(range(len(shape)), key=lambda at: -strides[at]):
        indices[dimension], rest = divmod(rest, strides[dimension])
    outer = max(range(len(shape)), key=lambda at: strides[at], default=None)
    is_in_others = all(index < size for at, (index, size) in enumerate(zip(indices, shape)) if at != outer)
    return indices if rest == 0 and is_in_others and shape else None


def _describe(tensor: Any, names: list[dict[str, Any]], address: int | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "names": names,
    }
    if address is not None:
        index = _index(tensor, address, tensor.untyped_storage().data_ptr())
        if index is not None:
            described["index"] = index
            described["inside"] = all(at < size for at, size in zip(index, described["shape"]))
    return described


def _rank(names: list[dict[str, Any]]) -> int:
    return min((_RANKS.index(name["what"]) for name in names), default=len(_RANKS))


def _per_buffer(names: _Names, report: dict[str, Any]) -> list[dict[str, Any]]:
    address = int(report["address"]["value"], 16) if "address" in report else None
    owner = report.get("buffer", {}).get("id")
    by_buffer: dict[int, list[Any]] = {}
    for buffer, tensor in names.found.values():
        by_buffer.setdefault(buffer, []).append(tensor)
    listed = []
    for buffer in sorted(by_buffer, key=lambda number: (number != owner, number)):
        tensors = sorted(by_buffer[buffer], key=lambda t: (_rank(names.names.get(id(t), [])), -t.numel()))
        named = [tensor for tensor in tensors if id(tensor) in names.names][:_TENSORS_SHOWN] or tensors[:1]
        shown = []
        for tensor in named:
            own = sorted(names.names.get(id(tensor), []), key=lambda name: _RANKS.index(name["what"]))[:_NAMES_SHOWN]
            with contextlib.suppress(Exception):
                shown.append(_describe(tensor, own, address if buffer == owner else None))
        if shown:
            listed.append({"buffer": buffer, "tensors": shown})
    return listed


def _tensors(report: dict[str, Any], survey: _Survey, frames: list[FrameType]) -> list[dict[str, Any]]:
    with contextlib.suppress(Exception):
        _add_frozen(survey, frames)
    with sys.modules["torch"]._C.DisableTorchFunctionSubclass():  # no subclass of Tensor intercepts what is asked of it
        names = _Names(_Buffers(report), survey, frames)
        names.take_all()
        return _per_buffer(names, report)


def look_up(report: dict[str, Any], frames: Iterable[FrameType]) -> dict[str, Any]:
    """Returns what Python knows of a report (the dict of last_report()): `buffers` with their `tensors`, the kernel's
    `arguments` by name, and `constexprs`. Empty if nothing is known. `frames`: whose variables to search, innermost first. May raise
    whatever the program's objects raise."""
    found: dict[str, Any] = {}
    if not _has_torch() and not {"triton", "numba.cuda", "warp"} & sys.modules.keys():
        return found
    survey = _Survey(time.monotonic() + SECONDS)
    buffers = _tensors(report, survey, list(frames)) if _has_torch() else []
    if buffers:
        found["buffers"] = buffers
    with contextlib.suppress(Exception):
        found.update(_kernels.look_up(report, survey.kernels))
    if survey.is_over():
        found["incomplete"] = True
    return found
