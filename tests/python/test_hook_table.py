"""Compares the table of hooks with the headers of CUDA: each form of each driver function is hooked, or has an excuse."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

from standin import ROOT

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

# Forms that are not hooked, and why they need not be: they neither allocate, free, map, copy, launch nor capture, and end
# nothing of ours; or they do it with other memory than ours, and run out of none of the device's. A pattern is that of a base,
# like cuMemAlloc, or of one version of it, like cuMemAlloc_v3020. A form that is not hooked matches exactly one.
EXCUSES = {
    "only asks": r"cuDriverGetVersion|cuGetError(Name|String)|cuDeviceGet(?!(Default)?MemPool|GraphMem)\w*"
    r"|cuDevice(CanAccessPeer|ComputeCapability|TotalMem|PrimaryCtxGetState)|cu(Green)?CtxGet\w+|cuStream(Get\w+|IsCapturing)"
    r"|cuFunc(Get\w+|IsLoaded)|cuKernelGet(?!Function)\w+|cuLibrary(EnumerateKernels|GetKernelCount)"
    r"|cuModule(EnumerateFunctions|GetFunctionCount|GetLoadingMode|GetSurfRef|GetTexRef)|cuOccupancy\w+"
    r"|cu(Mipmapped)?Array(3D)?Get\w+|cu(Tex|Surf)(Object|Ref)Get\w+|cuMemGet(Access|Allocation\w+|LocationInfo)"
    r"|cuMulticastGetGranularity|cuLogicalEndpoint(GetLimits|Query)|cuCheckpointProcessGet\w+|cuMemHostGet\w+"
    r"|cu(GL|WGL|VDPAU)GetDevices?|cuGraphics(Sub)?ResourceGetMapped\w+",
    "only asks about graphs; addresses in the answer are those that the program gave": r"cuGraph(Exec|Node)?Get(?!Params)\w+"
    r"|cuGraph(DebugDotPrint|NodeFindInClone|ChildGraphNodeGetGraph)|cuGraphEvent(Record|Wait)NodeGetEvent"
    r"|cuGraph(BatchMemOp|ExternalSemaphores\w+|Host|Kernel|Memcpy|Memset)NodeGetParams|cuGraphKernelNodeGetAttribute",
    "the driver's own handle names our pool too": r"cuDeviceGet(Default)?MemPool|cuMemGet(Default)?MemPool",
    "the driver keeps what cuMemPoolSetAccess told it": "cuMemPoolGetAccess",
    "figures of the driver's graphs: what a capture gets from us counts as a byte": r"cuDevice[GS]etGraphMemAttribute",
    "which context is current: each hook asks for it anew": r"cuCtx(PopCurrent|PushCurrent|SetCurrent)",
    "a handle for a context that is known by its green one": "cuCtxFromGreenCtx",
    "describes processors, for cuGreenCtxCreate": r"cuDevSmResource\w+|cuDevResourceGenerateDesc",
    "how the host waits; the core dumps that the flags ask for are taken anyway": r"cu(Ctx|DevicePrimaryCtx)SetFlags",
    "a hint to caches, to shared memory or to the scheduler": r"cuCtx(ResetPersistingL2Cache|Set(Cache|SharedMem)Config)"
    r"|cuStream(Copy|Set)Attributes?|cuGraphKernelNode(Copy|Set)Attributes?|cuFuncSet(Attribute|CacheConfig|SharedMemConfig)",
    "swaps the calling thread's mode: what it allows is asked of the driver at each call": "cuThreadExchangeStreamCaptureMode",
    "has the driver call a function of the host, or counts users for that": r"cuUserObject\w+|cuGraph(Retain|Release)UserObject"
    r"|cuDevice(Unr|R)egisterAsyncNotification|cuLogs\w+",
    "has the driver call a function of the host, also at core dumps of cufence": r"cuCoredump(Der|R)egister\w+Callback",
    "only orders writes of other hardware": "cuFlushGPUDirectRDMAWrites",
    "links code in memory of the host": r"cuLink\w+",
    "of the profiler": r"cuProfiler\w+",
    "locks and saves a whole process, with cufence in it": r"cuCheckpointProcess(Lock|Checkpoint|Restore|Unlock)"
    "|cuCheckpointOperationComplete",
    "internal tables of the driver, which nothing documents": "cuGetExportTable",
    # deprecated
    "launches with what cuParamSet* has set, obsolete since CUDA 4: a fault in it is reported without its launch": r"cuLaunch"
    r"|cuLaunchGrid(Async)?|cuParamSet\w+|cuFuncSet(BlockShape|SharedSize)",
    "deprecated since CUDA 11.3: a fault in it is reported without its launch": "cuLaunchCooperativeKernelMultiDevice",
    "obsolete since CUDA 6.5: kernels may not know the memory by its host address": "cuMemHostRegister_v4000",
    "of a texture or surface reference: cuTexRefSetAddress alone takes memory that may be ours": r"cuSurfRefSetArray"
    r"|cuTexRef(Create|Destroy|Set(?!Address(2D)?$)\w+)",
    # other memory
    "ends what is left to the driver": r"cu(Mipmapped)?ArrayDestroy|cuSurfObjectDestroy|cuIpcCloseMemHandle"
    r"|cuDestroyExternal\w+|cuGraphicsUnregisterResource|cuMulticastUnbind|cuLogicalEndpoint(Destroy|Unbind)",
    "of memory that the program maps itself, left to the driver": r"cuMem(Release|MapArrayAsync)"
    r"|cuMem(ExportTo|ImportFrom)ShareableHandle",
    "addresses and numbers, no memory": r"cuMemAddressReserve|cuLogicalEndpoint(AddDevice|Export|Id(Reserve|Release))",
    "takes managed memory or the host's only": r"cuMem(Advise|Prefetch(Batch)?Async|Discard(AndPrefetch)?BatchAsync)"
    r"|cuMemRangeGetAttributes?|cuStreamAttachMemAsync",
    "a handle for another process: such pools are left to the driver": "cuMemPoolExportToShareableHandle",
    "a descriptor of memory, which stays as it is": "cuMemGetHandleForAddressRange",
    # events and semaphores
    "an event of another process or API: a wait for one that was not seen counts as one for all": "cuEventCreateFromEGLSync"
    r"|cuIpc(Get|Open)EventHandle",
    "a semaphore of another API: its waits and signals are hooked": "cuImportExternalSemaphore",
    # graphs
    "refused by the driver for graphs that allocate, so for those with memory of ours": "cuGraphDestroyNode"
    r"|cuGraphRemoveDependencies|cuGraphAddChildGraphNode",
    "orders nodes, or makes a handle for one": r"cuGraphAdd(Dependencies|EmptyNode)|cuGraphConditionalHandleCreate",
    "a node that was noted for its kind when it was added": r"cuGraph(Exec)?EventWaitNodeSetEvent"
    r"|cuGraph(Exec)?(BatchMemOp|ExternalSemaphores(Signal|Wait)|Host)NodeSetParams",
    # graphics
    "memory of a graphics API: left to the driver": r"cuGL(?!GetDevices|CtxCreate)\w+|cuGraphics(GL|EGL|VDPAU)Register\w+"
    r"|cuGraphicsResourceSetMapFlags",
    "a context for a graphics API, seen when it is first used": r"cu(GL|VDPAU)CtxCreate",
    "frames of EGL: their memory is left to the driver, and the order that they give is not followed": r"cuEGLStream\w+",
}
FIRST_64_BIT = 3020  # forms from before are replaced by a later one
NEWEST = 13050  # CUDA_VERSION of the headers that the excuses were written for


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


def without_suffix(symbol: str) -> str:
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


PROBE = """
#include "hooks.h"
#define HOOK_ROW(symbol, base, version, thread, how, check, parameters, arguments) ROW #symbol base version thread END
PRELOAD_HOOKS(HOOK_ROW)
"""


def read_table(text: str) -> dict[Form, str]:
    rows = re.findall(r'\bROW "([^"]*)" "(\w+)" (\d+) ([01]) END', re.sub(r"\s+", " ", text))
    return {Form(base, int(version), thread == "1"): symbol for symbol, base, version, thread in rows}


def is_old(form: Form, hooks: dict[Form, str]) -> bool:
    """Whether it is a form with addresses and sizes of 32 bits, and the one that replaced it is hooked."""
    return form.version < FIRST_64_BIT and any(other.base == form.base and other.version >= FIRST_64_BIT for other in hooks)


def excuses_of(form: Form, excuses: dict[str, str]) -> list[str]:
    def covers(pattern: str) -> bool:
        return re.fullmatch(pattern, f"{form.base}_v{form.version}" if "_v" in pattern else form.base) is not None

    return [reason for reason, pattern in excuses.items() if covers(pattern)]


def unexcused(hooks: dict[Form, str], excuses: dict[str, str], forms: set[Form], toolkit: int) -> list[str]:
    """One sentence for each form that is neither hooked nor excused, or is more than that, and each excuse of no form."""
    said, used = [], set[str]()
    for form in sorted(forms - hooks.keys()):
        reasons = excuses_of(form, excuses)
        used |= set(reasons)
        if not reasons and not is_old(form, hooks):
            said.append(
                f"{form}: in cudaTypedefs.h and in no list. Add a HOOK row to allocator/preload/hooks.h or hooks_rare.h, or a "
                f"pattern to EXCUSES with a reason that is true of it"
            )
        elif len(reasons) > 1:
            said.append(f"{form}: more than one excuse: {'; '.join(reasons)}")
    for form in sorted(hooks):
        said += [f"{form}: hooked, and excused ({reason})" for reason in excuses_of(form, excuses)]
    if toolkit >= NEWEST:
        said += [f"the excuse \"{reason}\" is no function's" for reason in excuses if reason not in used]
    return said


def misnamed(hooks: dict[Form, str], forms: set[Form], symbols: set[str], toolkit: int) -> list[str]:
    """One sentence for each hook whose symbol, version or thread is wrong."""
    said = []
    for form, symbol in sorted(hooks.items()):
        has_no_typedef = form.thread and symbol in symbols  # cuGetProcAddress_v2_ptsz
        if form not in forms and form.version <= toolkit and not has_no_typedef:
            said.append(f"{form}: not in cudaTypedefs.h. Correct its name, version or thread in allocator/preload/hooks.h")
        if symbol not in symbols and form.version <= toolkit:
            said.append(f"{form}: cuda.h declares no {symbol}. Correct the symbol in allocator/preload/hooks.h")
        elif without_suffix(symbol) != form.base:
            said.append(f"{form}: {symbol} is a form of {without_suffix(symbol)}. Correct the row in allocator/preload/hooks.h")
        elif symbol.endswith(("_ptsz", "_ptds")) != form.thread:
            said.append(f"{form}: {symbol} and its thread do not agree. Correct the row in allocator/preload/hooks.h")
    return said


def differences(
    hooks: dict[Form, str], excuses: dict[str, str], forms: set[Form], symbols: set[str], toolkit: int
) -> list[str]:
    """Returns one sentence per difference, with what to do about it. `toolkit` is CUDA_VERSION of the headers."""
    said = unexcused(hooks, excuses, forms, toolkit) + misnamed(hooks, forms, symbols, toolkit)
    known = {form.base for form in forms | hooks.keys()}
    for base in sorted({without_suffix(symbol) for symbol in symbols} - known):
        if not excuses_of(Form(base, 0, False), excuses):
            said.append(f"{base}: declared by cuda.h and in no list. Hook it in allocator/preload/hooks.h, or excuse it")
    return said


def version_of(headers: Path) -> int:
    found = re.search(r"^#define CUDA_VERSION (\d+)", (headers / "cuda.h").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def find_headers() -> Path | None:
    """Returns the folder of the newest headers: of the build's toolkit, another one, or the wheel nvidia-cuda-runtime."""
    folders = []
    cache = Path(os.environ.get("CUFENCE_BUILD", ROOT / "build")) / "CMakeCache.txt"
    if cache.is_file():
        folders += re.findall(r"^CUFENCE_CUDA_INCLUDE_DIR:\w+=(.+)$", cache.read_text(), re.MULTILINE)
    folders += [os.environ.get("CUFENCE_CUDA_INCLUDE"), str(ROOT / ".deps/cuda/include")]
    folders += [f"{os.environ[name]}/include" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders += ["/usr/local/cuda/include", "/usr/lib/cuda/include"]
    folders += [f"{folder}/nvidia/cu{release}/include" for folder in sys.path for release in (13, 14)]
    found = [Path(folder) for folder in folders if folder and (Path(folder) / "cudaTypedefs.h").is_file()]
    return max(found, key=version_of, default=None)


def read_forms(headers: Path) -> set[Form]:
    """The forms of cuda.h, and those of the headers for other APIs, whose own headers may be missing here."""
    forms = forms_of_typedefs(preprocess("#include <cudaTypedefs.h>\n", f"-I{headers}", "-D__CUDA_API_VERSION_INTERNAL"))
    for other in headers.glob("cuda?*Typedefs.h"):
        forms |= forms_of_typedefs(other.read_text().replace("CUDAAPI", ""))
    return forms


class Toolkit(unittest.TestCase):
    """Compares the real table with the real headers."""

    @unittest.skipUnless(COMPILER, "no C compiler to read the headers with")
    def test_every_form_is_hooked_or_excused(self) -> None:
        headers = find_headers()
        if headers is None:
            self.skipTest("no cudaTypedefs.h: install a CUDA Toolkit, or run ./dev build, which fetches its headers")
        include = f"-I{headers}"
        forms, symbols = read_forms(headers), set[str]()
        for flags in ((), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), ("-D__CUDA_API_VERSION_INTERNAL",)):
            symbols |= functions_of(preprocess("#include <cuda.h>\n", include, *flags))
        hooks = read_table(preprocess(PROBE, include, f"-I{ROOT}/allocator/preload"))
        self.assertGreater(len(forms), 500, "cudaTypedefs.h could not be read")
        self.assertGreater(len(hooks), 60, "hooks.h could not be read")
        said = differences(hooks, EXCUSES, forms, symbols, version_of(headers))
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

    HOOKS = {ALLOC: "cuMemAlloc_v2", FREE: "cuMemFreeAsync_ptsz"}
    EXCUSES = {"copies": "cuMemcpy", "left to the driver": r"cuArray\w+"}

    def compare(self, hooks: dict[Form, str], excuses: dict[str, str]) -> list[str]:
        return differences(hooks, excuses, forms_of_typedefs(self.TYPEDEFS), self.SYMBOLS, NEWEST)

    def test_a_complete_table(self) -> None:
        self.assertEqual(self.compare(self.HOOKS, self.EXCUSES), [])

    def test_each_difference_is_named(self) -> None:
        to_come = Form("cuMemcpy", 14000, True)  # of another toolkit
        for hooks, excuses, messages in (
            ({self.FREE: ""}, {}, [r"^cuMemFreeAsync, CUDA 11\.2, for per-thread .* Add a HOOK row"]),
            ({}, {"copies": "cuX"}, [r"^cuMemcpy, CUDA 7\.0, .* in no list", 'the excuse "copies" is no function\'s']),
            ({}, {"all": r"cuMemc\w+"}, ["more than one excuse: copies; .*all"]),
            ({}, {"taken": "cuMemAlloc"}, [r"^cuMemAlloc, CUDA 3\.2: hooked, and excused \(taken\)", "is no function's"]),
            ({}, {"none": "cuY"}, ['"none" is no function\'s']),
            ({self.ALLOC: "cuMemAlloc_v3"}, {}, [r"cuda\.h declares no cuMemAlloc_v3"]),
            ({self.ALLOC: "cuArrayCreate_v2"}, {}, ["is a form of cuArrayCreate"]),
            ({self.ALLOC: "cuMemcpy_ptds"}, {}, ["is a form of cuMemcpy"]),
            ({self.FREE: "cuMemFreeAsync"}, {}, ["its thread do not agree"]),
            ({to_come: "cuMemcpy_v9_ptds"}, {}, ["hooked, and excused"]),
        ):
            changed = {form: symbol for form, symbol in (self.HOOKS | hooks).items() if symbol}
            said = self.compare(changed, self.EXCUSES | excuses)
            self.assertEqual(len(said), len(messages), said)
            for line, message in zip(said, messages):
                self.assertRegex(line, message)

    def test_a_function_without_a_typedef_is_named(self) -> None:
        said = differences(self.HOOKS, self.EXCUSES, forms_of_typedefs(self.TYPEDEFS), self.SYMBOLS | {"cuNew"}, NEWEST)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "^cuNew: declared by cuda.h and in no list")
