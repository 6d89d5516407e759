"""A program without Python that is linked with PyTorch: the class becomes its allocator before main(). With stand-ins for both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

import standin

sys.path.insert(0, str(standin.ROOT / "cmake"))
import torch_headers  # noqa: E402

CLASS = """
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdio>
#include <cstdlib>
namespace {
struct Ours : c10::cuda::CUDACachingAllocator::CUDAAllocator { int two() override { return 3; } } ours;
}
extern "C" __attribute__((visibility("default"))) void *cufence_torch_allocator() { return &ours; }
extern "C" __attribute__((visibility("default"))) const char *cufence_torch_install(int is_traced)
{
    std::printf("%d %s\\n", is_traced, std::getenv("PYTORCH_CUDA_ALLOC_CONF"));
    if (!std::getenv("STANDIN_REFUSES"))
        c10::cuda::CUDACachingAllocator::allocator = &ours;
    return std::getenv("STANDIN_REFUSES");
}
"""
PROGRAM = """
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdio>
#include <cstdlib>
int main()
{
    std::printf("%d %s\\n", c10::cuda::CUDACachingAllocator::allocator->two(), std::getenv("PYTORCH_CUDA_ALLOC_CONF"));
}
"""
SETTINGS = "expandable_segments:False,backend:cudaMallocAsync,roundup_power2_divisions:[256:1,>:2]"
SERVED = f"1 {SETTINGS.replace('backend:cudaMallocAsync,', '')}\n3 {SETTINGS}\n"


@unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Adopted(standin.InFolder):
    def setUp(self) -> None:
        super().setUp()
        standin.make_torch(self.folder)
        self.torch, self.program = self.folder / "torch", self.folder / "program"
        self.library = standin.copy_library(self.folder / "cufence" / "lib")
        self.links = [f"-I{self.torch / 'include'}", f"-L{self.torch / 'lib'}", "-Wl,--no-as-needed", "-lc10", "-lc10_cuda"]
        standin.compile_shared(PROGRAM, self.program, *self.links, f"-Wl,-rpath,{self.torch / 'lib'}", kind=())
        self.ship("2.11")
        self.version("2.11.1+cu130")

    def ship(self, version: str, text: str = CLASS) -> None:
        standin.ship_class(self.folder, self.library, version, text)

    def version(self, text: str) -> None:
        (self.torch / "version.py").write_text(f"from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '{text}'\n")

    def run_it(self, said: str = "", printed: str = f"2 {SETTINGS}\n", settings: str = SETTINGS, **more: str) -> None:
        preload = self.library.with_name("libcufence_preload.so")
        environment = {**os.environ, "LD_PRELOAD": str(preload), "PYTORCH_CUDA_ALLOC_CONF": settings, **more}
        done = subprocess.run([self.program], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, printed))
        self.assertRegex(done.stderr, f"^cufence: PyTorch.* its cudaMallocAsync back end: .*{said}.*\n$" if said else "^$")

    def test_it_is_the_allocator(self) -> None:
        self.run_it(printed=SERVED)
        (self.torch / "version.py").unlink()
        (self.torch / "build-version").write_text("2.11.1+cu130\n")
        self.run_it(printed=SERVED)

    def test_which_one(self) -> None:
        """One for the release; what was built from source is served by what was built for this very version."""
        self.ship("2.12", CLASS.replace("return 3", "return 4"))
        for version, number in (("2.11.0", 3), ("2.11.4", 3), ("2.12.1+cu130", 4)):
            self.version(version)
            self.run_it(printed=SERVED.replace("\n3", f"\n{number}"))
        self.version("2.11.1a0+git1234")
        self.run_it(r"PyTorch 2\.11\.1a0\+git1234 is none of the releases that cufence supports: 2\.11 to 2\.15")
        self.ship("2.11.1a0+git1234")
        self.run_it(printed=SERVED)
        self.version("2.10.0")
        self.run_it(r"PyTorch 2\.10\.0 is none of the releases that cufence supports: 2\.11 to 2\.15")
        self.version("2.13.0")
        self.run_it(r"cufence was built without the class for PyTorch 2\.13\.0; it supports 2\.11 to 2\.15")

    def test_no_version(self) -> None:
        (self.torch / "version.py").unlink()
        self.run_it("Neither version.py nor build-version above .*libc10_cuda.so says which PyTorch it is")

    def test_one_that_does_not_fit(self) -> None:
        self.ship("2.11", CLASS.replace("{ int two()", "{ virtual int three() { return 3; } int two()"))
        self.run_it(r"libcufence-torch-2\.11\.so does not fit this PyTorch: its allocator has 5 virtual functions and .*, PyTorch's has 4 ")
        header = self.torch / "include" / "c10" / "core" / "Allocator.h"
        text = header.read_text()
        header.write_text(text.replace("struct Allocator {", "struct Root { virtual ~Root() {} };\nstruct Allocator : Root {"))
        self.ship("2.11")
        header.write_text(text)
        self.run_it(r"and the bases N3c104cuda\w+E, N3c109AllocatorE, N3c104RootE, PyTorch's has 4 virtual functions and ")
        self.ship("2.11", CLASS.replace("return 3;", "return missing();").replace("namespace {", "int missing();\nnamespace {"))
        self.run_it("undefined symbol: .*missing")
        self.ship("2.11", CLASS.replace("cufence_torch_allocator()", "of_another_version()"))
        self.run_it("undefined symbol: cufence_torch_allocator")

    def test_refused(self) -> None:
        printed = SERVED.replace("\n3", "\n2")
        self.run_it("CUDA has begun", printed=printed, STANDIN_REFUSES="CUDA has begun")

    def test_without_the_back_end_it_says_nothing(self) -> None:
        """With the preload library alone PyTorch has its own allocator."""
        self.version("2.13.0")
        self.run_it(printed="2 max_split_size_mb:64\n", settings="max_split_size_mb:64")


class Headers(standin.InFolder):
    def test_supported(self) -> None:
        """Messages name the releases for which headers are fetched."""
        text = (standin.PACKAGE / "torch.h").read_text()
        first, last = (int(re.findall(rf"CUFENCE_TORCH_{end} = (\d+)", text)[0]) for end in ("FIRST", "LAST"))
        self.assertEqual([f"2.{minor}" for minor in range(first, last + 1)], list(map(torch_headers.minor, torch_headers.VERSIONS)))

    def test_not_to_be_had(self) -> None:
        script = standin.ROOT / "cmake" / "torch_headers.py"
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
        done = standin.run(sys.executable, script, "--to", self.folder, env=environment)
        self.assertEqual((done.returncode, os.listdir(self.folder)), (1, []))
        self.assertRegex(done.stderr, r"the headers of PyTorch 2\.11\.0 could not be had: ERROR: No matching distribution")

    def test_installed(self) -> None:
        """Headers that are there stay; links follow the environment."""
        for version, name in (("2.11.0+cu130", "2.11"), ("2.12.1", "2.12"), ("2.11.0a0+git1234", "2.11.0a0+git1234")):
            package = self.folder / version / "torch"
            files = {"__init__.py": "", "version.py": f"__version__ = '{version}'\n", "lib/libc10_cuda.so": "", "include/c10.h": ""}
            standin.write_files(package, files)
            for _ in range(2):
                environment = {**os.environ, "PYTHONPATH": str(package.parent)}
                done = standin.run(sys.executable, standin.ROOT / "cmake/torch_headers.py", "--to", self.folder / "to", "--installed", env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.folder / "to" / name).resolve(), package / "include")
