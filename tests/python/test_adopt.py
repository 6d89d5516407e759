"""A program without Python that is linked with PyTorch: the class becomes its allocator before main(). With stand-ins for both."""

from __future__ import annotations

import os
import subprocess
import unittest

import standin

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
SERVED = f"0 {SETTINGS.replace('backend:cudaMallocAsync,', '')}\n3 {SETTINGS}\n"


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
        self.ship("2.11.1")
        self.version("2.11.1+cu130")

    def ship(self, version: str, text: str = CLASS) -> None:
        folder = self.library.parent / "torch"
        folder.mkdir(exist_ok=True)
        standin.compile_shared(text, folder / f"libcufence-torch-{version}-0123456789abcdef.so", *self.links)

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

    def test_other_releases(self) -> None:
        self.ship("2.11.3", CLASS.replace("return 3", "return 4"))
        self.ship("2.12.0", CLASS.replace("return 3", "return 5"))
        for version, number in (("2.11.0", 3), ("2.11.2", 3), ("2.11.3", 4), ("2.11.4", 4)):
            self.version(version)
            self.run_it(printed=SERVED.replace("\n3", f"\n{number}"))
        self.version("2.13.0")
        self.run_it("without an allocator for this version")

    def test_no_release(self) -> None:
        self.version("2.11.1a0+git1234")
        self.run_it("Neither version.py nor build-version above .*libc10_cuda.so names a release")

    def test_one_that_does_not_fit(self) -> None:
        self.ship("2.11.1", CLASS.replace("{ int two()", "{ virtual int three() { return 3; } int two()"))
        self.run_it(r"0123456789abcdef\.so does not fit this PyTorch: its allocator has 5 virtual functions and .*, PyTorch's has 4 ")
        self.ship("2.11.1", CLASS.replace("return 3;", "return missing();").replace("namespace {", "int missing();\nnamespace {"))
        self.run_it("undefined symbol: .*missing")

    def test_refused(self) -> None:
        printed = SERVED.replace("\n3", "\n2")
        self.run_it("CUDA has begun", printed=printed, STANDIN_REFUSES="CUDA has begun")

    def test_without_the_back_end_it_says_nothing(self) -> None:
        """With the preload library alone PyTorch has its own allocator."""
        self.version("2.13.0")
        self.run_it(printed="2 max_split_size_mb:64\n", settings="max_split_size_mb:64")
