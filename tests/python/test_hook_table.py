"""Compares the table of hooks with the toolkit's headers: no form of a function in these families may be missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

from standin import ROOT

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

# The functions that the preload library replaces or watches, and their relatives. Each of their forms is hooked, or excluded.
FAMILIES = re.compile(
    r"cuMem(Alloc|Free|Pool|cpy|set)\w*|cuMemCreate"
    r"|cuMemHost(Alloc|Register|Unregister)|cuMem(GetInfo|GetAddressRange|GetDefaultMemPool|GetMemPool|SetMemPool)"
    r"|cuDevice(Get|Set|GetDefault)MemPool|cuPointerGetAttributes?|cuIpcGetMemHandle"
    r"|cuLaunch\w*|cuGraphLaunch|cu(Stream|Event|Ctx)(Synchronize|Query)"
    r"|cu(Stream|Ctx)Destroy|cuDevicePrimaryCtx\w+|cuStreamBegin(Rec|C)apture\w*|cuStreamEndCapture|cuGraph(Exec)?(Kernel)?NodeSetParams|cuGraphAdd(Kernel)?Node|cuGraphConditional\w+|cuGraphInstantiateWith\w+|cuGraphExecDestroy"
    r"|cuModuleLoad\w*|cuModuleUnload|cuLibraryLoad\w*|cuLibraryUnload|cuGetProcAddress|cuInit|cuTensorMap\w+"
)

# Forms of them that are not hooked, and why. Those from before CUDA 3.2 have 32-bit addresses and sizes, and need no row here.
PASSED = {
    ("cuMemHostRegister", 4000, False): "obsolete since CUDA 6.5: kernels may not know it by its host address",
    ("cuMemPoolExportToShareableHandle", 11020, False): "pools for other processes are left to the driver as a whole",
    ("cuMemPoolImportFromShareableHandle", 11020, False): "imported memory",
    ("cuMemPoolImportPointer", 11020, False): "imported memory",
    ("cuMemPoolGetAccess", 11020, False): "the driver keeps what cuMemPoolSetAccess told it",
    ("cuDeviceGetDefaultMemPool", 11020, False): "the driver's own handle names our pool too",
    ("cuDeviceGetMemPool", 11020, False): "the driver's own handle names our pool too",
    ("cuMemGetDefaultMemPool", 13000, False): "the driver's own handle names our pool too",
    ("cuMemGetMemPool", 13000, False): "the driver's own handle names our pool too",
    ("cuLaunch", 2000, False): "its arguments are set by cuParamSet*, obsolete since CUDA 4",
    ("cuLaunchGrid", 2000, False): "its arguments are set by cuParamSet*, obsolete since CUDA 4",
    ("cuLaunchGridAsync", 2000, False): "its arguments are set by cuParamSet*, obsolete since CUDA 4",
    ("cuLaunchCooperativeKernelMultiDevice", 9000, False): "deprecated; a fault in it is reported without its launch",
    ("cuDevicePrimaryCtxGetState", 7000, False): "only asks",
    ("cuDevicePrimaryCtxSetFlags", 7000, False): "scheduling only",
    ("cuDevicePrimaryCtxSetFlags", 11000, False): "scheduling only",
    ("cuStreamBeginRecaptureToGraph", 13030, False): "noticed at each allocation; its memory stays",
    ("cuStreamBeginRecaptureToGraph", 13030, True): "noticed at each allocation; its memory stays",
    ("cuStreamBeginCaptureToCig", 13010, False): "of a graphics API's command list",
    ("cuStreamBeginCaptureToCig", 13010, True): "of a graphics API's command list",
    ("cuMemcpyWithAttributesAsync", 13020, False): "like cuMemcpyBatchAsync",
    ("cuMemcpyWithAttributesAsync", 13020, True): "like cuMemcpyBatchAsync",
    ("cuMemcpy3DWithAttributesAsync", 13020, False): "like cuMemcpyBatchAsync",
    ("cuMemcpy3DWithAttributesAsync", 13020, True): "like cuMemcpyBatchAsync",
    ("cuMemcpyBatchAsync", 12080, False): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpyBatchAsync", 12080, True): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpyBatchAsync", 13000, False): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpyBatchAsync", 13000, True): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpy3DBatchAsync", 12080, False): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpy3DBatchAsync", 12080, True): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpy3DBatchAsync", 13000, False): "a copy that leaves a mapping is refused by the driver",
    ("cuMemcpy3DBatchAsync", 13000, True): "a copy that leaves a mapping is refused by the driver",
}
FIRST_64_BIT = 3020

# Functions that begin like one of them but are unrelated.
OTHERS = re.compile(r"cuMemAllocationProp\w*|cuModuleLoadingMode")


class Form(NamedTuple):
    """A form of a function: the CUDA version that introduced it, and whether it is for per-thread default streams."""

    base: str
    version: int
    thread: bool

    def __str__(self) -> str:
        return f"{self.base}, CUDA {self.version // 1000}.{self.version % 1000 // 10}" + (
            ", for per-thread default streams" if self.thread else ""
        )


def preprocess(source: str, *flags: str) -> str:
    assert COMPILER
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        probe.write_text(source)
        done = subprocess.run([COMPILER, "-E", "-P", *flags, str(probe)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def forms_of_typedefs(text: str) -> set[Form]:
    """Returns the forms that a preprocessed cudaTypedefs.h defines: PFN_<base>_v<version>[_ptsz | _ptds]."""
    return {
        Form(base, int(version), bool(thread))
        for base, version, thread in re.findall(r"\*\s*PFN_(cu\w+?)_v(\d{4,})(_ptsz|_ptds)?\s*\)", text)
    }


def functions_of(text: str) -> set[str]:
    """Returns the functions that a preprocessed cuda.h declares."""
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w+)\s*\(", text))


def is_of_interest(base: str) -> bool:
    return FAMILIES.fullmatch(base) is not None and OTHERS.fullmatch(base) is None


def without_suffix(symbol: str) -> str:
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


class Table(NamedTuple):
    hooks: dict[Form, str]  # the symbol of each
    passed: set[Form]


PROBE = """
#include "hooks.h"
#define HOOK_ROW(symbol, base, version, thread, how, check, parameters, arguments) ROW #symbol base version thread END
PRELOAD_HOOKS(HOOK_ROW)
"""


def read_table(text: str) -> dict[Form, str]:
    rows = re.findall(r'\bROW "([^"]*)" "(\w+)" (\d+) ([01]) END', re.sub(r"\s+", " ", text))
    return {Form(base, int(version), thread == "1"): symbol for symbol, base, version, thread in rows}


def passed_forms(forms: set[Form], hooks: dict[Form, str]) -> set[Form]:
    """Returns the forms in PASSED, and the 32-bit ones of functions that are hooked."""
    listed = {Form(*row) for row in PASSED}
    current = {form.base for form in hooks if form.version >= FIRST_64_BIT}
    return listed | {form for form in forms - hooks.keys() if form.version < FIRST_64_BIT and form.base in current}


def differences(table: Table, forms: set[Form], symbols: set[str], toolkit: int) -> list[str]:
    """Returns one sentence per difference, with what to do about it. `toolkit` is CUDA_VERSION of the headers."""
    wanted = {form for form in forms if is_of_interest(form.base)}
    said = []
    for form in sorted(wanted - table.hooks.keys() - table.passed):
        said.append(
            f"{form}: in cudaTypedefs.h and in no list. Add a HOOK row to allocator/preload/hooks.h, or a row to "
            f"PASSED that says why it may be left alone"
        )
    for form in sorted(table.hooks.keys() & table.passed):
        said.append(f"{form}: both hooked and passed. Take its row out of allocator/preload/hooks.h or PASSED")
    for form in sorted(table.hooks.keys() | table.passed):
        has_no_typedef = form.thread and table.hooks.get(form) in symbols  # cuGetProcAddress_v2_ptsz
        if form not in forms and form.version <= toolkit and not has_no_typedef:
            said.append(f"{form}: not in cudaTypedefs.h. Correct its name, version or thread in allocator/preload/hooks.h")
    for form, symbol in sorted(table.hooks.items()):
        if symbol not in symbols and form.version <= toolkit:
            said.append(f"{form}: cuda.h declares no {symbol}. Correct the symbol in allocator/preload/hooks.h")
        elif without_suffix(symbol) != form.base:
            said.append(f"{form}: {symbol} is a form of {without_suffix(symbol)}. Correct the row in allocator/preload/hooks.h")
        elif symbol.endswith(("_ptsz", "_ptds")) != form.thread:
            said.append(f"{form}: {symbol} and its thread do not agree. Correct the row in allocator/preload/hooks.h")
    known = {form.base for form in table.hooks.keys() | table.passed}
    for base in sorted({without_suffix(symbol) for symbol in symbols}):
        if is_of_interest(base) and base not in known:
            said.append(f"{base}: declared by cuda.h and in no list. Add it to allocator/preload/hooks.h, hooked or passed")
    return said


def find_headers() -> Path | None:
    """Returns the folder of the toolkit's headers: that of the build, or one where cmake/cuda.cmake searches."""
    folders = []
    cache = Path(os.environ.get("CUFENCE_BUILD", ROOT / "build")) / "CMakeCache.txt"
    if cache.is_file():
        folders += re.findall(r"^CUFENCE_CUDA_INCLUDE_DIR:\w+=(.+)$", cache.read_text(), re.MULTILINE)
    folders += [os.environ.get("CUFENCE_CUDA_INCLUDE"), str(ROOT / ".deps/cuda/include")]
    folders += [f"{os.environ[name]}/include" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders += ["/usr/local/cuda/include", "/usr/lib/cuda/include"]
    for folder in folders:
        if folder and (Path(folder) / "cudaTypedefs.h").is_file():
            return Path(folder)
    return None


class Toolkit(unittest.TestCase):
    """Compares the real table with the real headers."""

    @unittest.skipUnless(COMPILER, "no C compiler to read the headers with")
    def test_every_form_is_hooked_or_passed(self) -> None:
        headers = find_headers()
        if headers is None:
            self.skipTest("no cudaTypedefs.h: install a CUDA Toolkit, or run ./dev build, which fetches its headers")
        include = f"-I{headers}"
        cuda = "#include <cuda.h>\n"
        old = "-D__CUDA_API_VERSION_INTERNAL"
        forms = forms_of_typedefs(preprocess("#include <cudaTypedefs.h>\n", include, old))
        symbols = set[str]()
        for flags in ((), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), (old,)):
            symbols |= functions_of(preprocess(cuda, include, *flags))
        version = re.search(r"VERSION (\d+)", preprocess(cuda + "VERSION CUDA_VERSION\n", include))
        hooks = read_table(preprocess(PROBE, include, f"-I{ROOT}/allocator/preload"))
        table = Table(hooks, passed_forms(forms, hooks))
        assert version
        self.assertGreater(len(forms), 500, "cudaTypedefs.h could not be read")
        self.assertGreater(len(table.hooks), 60, "hooks.h could not be read")
        said = differences(table, forms, symbols, int(version[1]))
        if said:
            self.fail("\n".join(said))


class Reading(unittest.TestCase):
    """Tests the parsing and comparing itself on small samples."""

    TYPEDEFS = """
        typedef CUresult ( *PFN_cuMemAlloc_v3020)(CUdeviceptr_v2 *dptr, size_t bytesize);
        typedef CUresult ( *PFN_cuMemFreeAsync_v11020_ptsz)(CUdeviceptr_v2 dptr, CUstream hStream);
        typedef CUresult (*PFN_cuMemcpy_v7000_ptds)(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount);
        typedef CUresult ( *PFN_cuArrayCreate_v3020)(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v2 *p);
    """
    ALLOC = Form("cuMemAlloc", 3020, False)
    FREE = Form("cuMemFreeAsync", 11020, True)
    COPY = Form("cuMemcpy", 7000, True)
    ARRAY = Form("cuArrayCreate", 3020, False)
    SYMBOLS = {"cuMemAlloc_v2", "cuMemFreeAsync", "cuMemFreeAsync_ptsz", "cuMemcpy_ptds", "cuArrayCreate_v2"}

    def table(self) -> Table:
        hooks = {self.ALLOC: "cuMemAlloc_v2", self.FREE: "cuMemFreeAsync_ptsz"}
        return Table(hooks, {self.COPY})

    def compare(self, table: Table) -> list[str]:
        return differences(table, forms_of_typedefs(self.TYPEDEFS), self.SYMBOLS, 13000)

    def test_typedefs(self) -> None:
        self.assertEqual(forms_of_typedefs(self.TYPEDEFS), {self.ALLOC, self.FREE, self.COPY, self.ARRAY})

    def test_declarations(self) -> None:
        text = "CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);\ntypedef enum CUresult_enum { A } CUresult;\n"
        self.assertEqual(functions_of(text), {"cuMemAlloc_v2"})

    def test_table(self) -> None:
        text = 'ROW "cuMemAlloc_v2" "cuMemAlloc" 3020 0 END ROW "cuMemFreeAsync_ptsz"\n "cuMemFreeAsync" 11020 1 END'
        self.assertEqual(read_table(text), self.table().hooks)

    def test_forms_with_32_bits_are_passed_where_a_later_one_is_hooked(self) -> None:
        old, only = Form("cuMemAlloc", 2000, False), Form("cuMemAllocManaged", 2000, False)
        self.assertIn(old, passed_forms({old, only}, self.table().hooks))
        self.assertNotIn(only, passed_forms({old, only}, self.table().hooks))

    def test_a_complete_table(self) -> None:
        self.assertEqual(self.compare(self.table()), [])

    def test_each_difference_is_named(self) -> None:
        old, to_come = Form("cuMemcpy", 4000, False), Form("cuMemcpy", 14000, False)  # of another toolkit
        for hooks, passed, messages in (
            ({self.FREE: None}, (), [r"^cuMemFreeAsync, CUDA 11\.2, for per-thread .* Add a HOOK row", "^cuMemFreeAsync: declared"]),
            ({}, (old, to_come), [r"^cuMemcpy, CUDA 4\.0: not in cudaTypedefs\.h"]),
            ({}, (self.ALLOC,), [r"^cuMemAlloc, CUDA 3\.2: both hooked and passed"]),
            ({self.ALLOC: "cuMemAlloc_v3"}, (), [r"cuda\.h declares no cuMemAlloc_v3"]),
            ({self.ALLOC: "cuArrayCreate_v2"}, (), ["is a form of cuArrayCreate"]),
            ({self.ALLOC: "cuMemcpy_ptds"}, (), ["is a form of cuMemcpy"]),
            ({self.FREE: "cuMemFreeAsync"}, (), ["its thread do not agree"]),
        ):
            table = self.table()
            table.passed.update(passed)
            for form, symbol in hooks.items():
                table.hooks.pop(form)
                if symbol:
                    table.hooks[form] = symbol
            said = self.compare(table)
            self.assertEqual(len(said), len(messages), said)
            for line, message in zip(said, messages):
                self.assertRegex(line, message)
