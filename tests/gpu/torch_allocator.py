#!/usr/bin/env python3
"""What PyTorch's features ask of its CUDA allocator, under cufence's: memory and its figures, streams, snapshots, pools. The
questions are those of PyTorch's own test_cuda.py, written anew and smaller; torch_graphs.py has those about graphs.

    cufence run -- python3 tests/gpu/torch_allocator.py [-v] [NAME ...]      also with --enable, without `cufence run`

Needs a GPU and PyTorch 2.11 or later. What needs a compiler is skipped without one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

if "--enable" in sys.argv:
    sys.argv.remove("--enable")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "allocator" / "torch"))
    import cufence

    cufence.enable()

import torch

GIB = 1 << 30
DEVICE = torch.device("cuda", 0)


def int8(size: int) -> torch.Tensor:
    return torch.ones(size, device=DEVICE, dtype=torch.uint8)


def stats() -> dict:
    return torch.cuda.memory_stats(DEVICE)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def check_consistency(self) -> None:
        """What the snapshot says adds up to the figures."""
        segments = torch.cuda.memory_snapshot()
        now = stats()
        for field, key in (
            ("total_size", "reserved_bytes"), ("allocated_size", "allocated_bytes"), ("active_size", "active_bytes"),
            ("requested_size", "requested_bytes"),
        ):  # fmt: skip
            self.assertEqual(sum(segment[field] for segment in segments), now[f"{key}.all.current"], key)
        ends = {segment["address"] + segment["total_size"] for segment in segments}  # small buffers share pages; guards part these
        self.assertEqual(sum(segment["address"] not in ends for segment in segments), now["segment.all.current"])
        live = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
        self.assertEqual(len(live), now["allocation.all.current"])


class Memory(Case):
    def test_back_end(self) -> None:
        self.assertEqual(torch.cuda.get_allocator_backend(), "native")

    def test_raw(self) -> None:
        before = torch.cuda.memory_allocated()
        pointer = torch.cuda.caching_allocator_alloc(1)
        self.assertGreater(torch.cuda.memory_allocated(), before)
        torch.cuda.caching_allocator_delete(pointer)
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_figures(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        before = stats()
        small, large = torch.empty(1000, device=DEVICE), torch.empty(4 << 20, dtype=torch.uint8, device=DEVICE)
        now = stats()
        for key, grown in (("allocated_bytes.all", 4000 + (4 << 20)), ("requested_bytes.small_pool", 4000),
                           ("allocated_bytes.large_pool", 4 << 20), ("allocation.all", 2)):  # fmt: skip
            self.assertEqual(now[f"{key}.current"] - before[f"{key}.current"], grown, key)
            self.assertEqual(now[f"{key}.allocated"] - before[f"{key}.allocated"], grown, key)
        self.check_consistency()
        del small, large
        self.assertEqual(torch.cuda.memory_allocated(), before["allocated_bytes.all.current"])
        self.assertEqual(torch.cuda.max_memory_allocated() - before["allocated_bytes.all.current"], 4000 + (4 << 20))
        self.assertGreaterEqual(torch.cuda.memory_reserved(), torch.cuda.memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        self.check_consistency()
        self.assertIn("GPU reserved memory", torch.cuda.memory_summary())

    def test_empty_cache(self) -> None:
        tensor = torch.empty(64 << 20, dtype=torch.uint8, device=DEVICE)
        torch.cuda._sleep(1 << 28)  # 0.1 s or more
        reserved = torch.cuda.memory_reserved()
        del tensor
        torch.cuda.empty_cache()  # also of what kernels still use
        self.assertLessEqual(torch.cuda.memory_reserved(), reserved - (64 << 20))

    def test_out_of_memory(self) -> None:
        failures = stats()["num_ooms"]
        with self.assertRaisesRegex(
            torch.OutOfMemoryError, r"^CUDA out of memory\. Tried to allocate 800000000\.00 GiB\. GPU 0 has a total capacity of"
        ) as caught:
            torch.empty(1024 * 1024 * 1024 * 800000000, dtype=torch.int8, device=DEVICE)
        self.assertRegex(
            str(caught.exception), r"of which [\d.]+ GiB is free\. Of the allocated memory .* is allocated by PyTorch"
        )
        with self.assertRaisesRegex(RuntimeError, "Tried to allocate more than 1EB memory"):
            torch.empty(1024 * 1024 * 1024 * 8000000000, dtype=torch.int8, device=DEVICE)
        self.assertGreater(stats()["num_ooms"], failures)
        self.assertEqual(torch.empty(4, device=DEVICE).numel(), 4, "the next one works")

    def test_out_of_memory_is_told(self) -> None:
        told = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *what: told.append(what))
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.int8, device=DEVICE)
        self.assertEqual(len(told), 1)
        device, size, total, free = told[0]
        self.assertEqual((device, size), (0, 1 << 50))
        self.assertTrue(0 <= free <= total)

    def test_fraction(self) -> None:
        total = torch.cuda.get_device_properties(0).total_memory
        with self.assertRaises(ValueError):
            torch.cuda.set_per_process_memory_fraction(2.0)
        torch.cuda.set_per_process_memory_fraction(0.25)
        self.addCleanup(torch.cuda.set_per_process_memory_fraction, 1.0)
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 0.25)
        quarter = int(total * 0.25)
        torch.empty(quarter // 2, dtype=torch.int8, device=DEVICE)
        with self.assertRaisesRegex(torch.OutOfMemoryError, "allowed; "):
            torch.empty(quarter + (4 << 20), dtype=torch.int8, device=DEVICE)
        first = torch.empty(quarter // 2, dtype=torch.int8, device=DEVICE)
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(quarter // 2 + (8 << 20), dtype=torch.int8, device=DEVICE)
        del first
        torch.empty(quarter // 4 * 3, dtype=torch.int8, device=DEVICE)

    def test_shared_with_processes(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "through the host"):
            torch.empty(4, device=DEVICE).untyped_storage()._share_cuda_()

    def test_copies(self) -> None:
        source = torch.arange(1000, dtype=torch.int32)
        there = source.to(DEVICE)
        back = there.clone().cpu()
        self.assertTrue(torch.equal(source, back))

    def test_profiler(self) -> None:
        with torch.profiler.profile(profile_memory=True) as profile:
            torch.ones(1 << 20, device=DEVICE)
        events = [event for event in profile.events() if event.name == "[memory]"]
        self.assertTrue(events)


class Streams(Case):
    def test_recorded(self) -> None:
        side = torch.cuda.Stream()
        for _ in range(5):
            tensor = torch.full((1 << 20,), 1.0, device=DEVICE)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(100000000)  # 50 ms
                total = tensor.sum()
            tensor.record_stream(side)
            address = tensor.data_ptr()
            del tensor
            other = torch.full((1 << 20,), 5.0, device=DEVICE)
            self.assertNotEqual(other.data_ptr(), address)
            torch.cuda.current_stream().wait_stream(side)
            self.assertEqual(total.item(), float(1 << 20))

    def test_reused_in_order(self) -> None:
        tensor = torch.empty(1000, device=DEVICE)
        before = stats()["segment.all.allocated"]
        for _ in range(100):
            tensor = None
            tensor = torch.empty(1000, device=DEVICE)
        del tensor
        self.assertLess(stats()["segment.all.allocated"] - before, 50)

    def test_threads(self) -> None:
        wrong = []

        def work(number: int) -> None:
            with torch.cuda.stream(torch.cuda.Stream()):
                for size in range(1, 200):
                    tensor = torch.full((size * 100,), number, device=DEVICE)
                    if size % 50 == 0 and int(tensor[-1]) != number:
                        wrong.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.check_consistency()


class Snapshots(Case):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(torch.cuda.memory._record_memory_history, None)

    def block_of(self, size: int) -> dict:
        for segment in torch.cuda.memory._snapshot()["segments"]:
            for block in segment["blocks"]:
                if block["requested_size"] == size:
                    return block
        raise AssertionError(f"no block of {size} bytes")

    def test_state(self) -> None:
        torch.cuda.memory._record_memory_history("state", stacks="python")
        tensor = torch.empty(311, 411, device=DEVICE)
        block = self.block_of(311 * 411 * 4)
        self.assertEqual(block["state"], "active_allocated")
        self.assertEqual(block["address"], tensor.data_ptr())
        self.assertIn(Path(__file__).name, " ".join(frame["filename"] for frame in block["frames"]))

    def test_history(self) -> None:
        torch.cuda.memory._record_memory_history("all", stacks="all", max_entries=1000)
        self.assertTrue(torch._C._cuda_isHistoryEnabled())
        tensor = torch.empty(128 * 5, device=DEVICE)
        address = tensor.data_ptr()
        del tensor
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.int8, device=DEVICE)
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        actions = [entry["action"] for entry in trace if entry.get("addr") == address]
        self.assertEqual(actions[-3:], ["alloc", "free_requested", "free_completed"])
        self.assertIn("oom", [entry["action"] for entry in trace])
        freed = [entry for entry in trace if entry["action"] == "free_completed"][-1]
        self.assertIn("test_history", " ".join(frame["name"] for frame in freed["frames"]))
        self.assertLess(abs(freed["time_us"] / 1e6 - time.time()), 60)

    def test_history_of_segments(self) -> None:
        torch.cuda.memory.empty_cache()
        reserved = torch.cuda.memory_reserved()
        torch.cuda.memory._record_memory_history("all", context="all", stacks="python")
        tensor = torch.empty(5 << 20, dtype=torch.int8, device=DEVICE)
        address = tensor.data_ptr()
        del tensor
        torch.cuda.memory.empty_cache()
        self.assertLessEqual(torch.cuda.memory_reserved(), reserved)
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        segments = [entry for entry in trace if entry["addr"] <= address < entry["addr"] + entry["size"]]
        actions = [entry["action"] for entry in segments]
        self.assertEqual(actions, ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"])
        self.assertEqual((segments[0]["size"], segments[4]["size"]), (6 << 20, 6 << 20))
        self.assertIn("empty_cache", " ".join(frame["name"] for frame in segments[4]["frames"]))

    def test_history_beside_other_threads(self) -> None:
        torch.cuda.memory._record_memory_history("all", stacks="python")
        kept = []
        maker = threading.Thread(target=lambda: kept.extend(torch.empty(100, device=DEVICE) for _ in range(300)))
        maker.start()
        while maker.is_alive():
            torch.cuda.memory._snapshot()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        freed = [(entry["addr"], entry["addr"] + entry["size"]) for entry in trace if entry["action"] == "segment_free"]
        for tensor in kept:
            self.assertFalse([(start, end) for start, end in freed if start <= tensor.data_ptr() < end])

    def test_history_is_bounded(self) -> None:
        torch.cuda.memory._record_memory_history("all", max_entries=8)
        for _ in range(20):
            torch.empty(100, device=DEVICE)
        self.assertEqual(len(torch.cuda.memory._snapshot()["device_traces"][0]), 8)

    def check_replay(self, snapshot: dict) -> None:
        """What the viewer makes of the history, is there at its end."""
        there = {"segment": set(), "block": set()}
        for segment in snapshot["segments"]:
            there["segment"].add((segment["address"], segment["total_size"]))
            there["block"] |= {
                (block["address"], block["requested_size"]) for block in segment["blocks"] if block["state"] == "active_allocated"
            }
        live = {"segment": set(), "block": set()}
        for entry in snapshot["device_traces"][0]:
            kind = "segment" if entry["action"].startswith("segment") else "block"
            if entry["action"] in ("alloc", "segment_alloc"):
                live[kind].add((entry["addr"], entry["size"]))
            elif entry["action"] in ("free_completed", "segment_free"):
                live[kind].discard((entry["addr"], entry["size"]))
        for kind in live:
            self.assertTrue(live[kind])
            self.assertLessEqual(live[kind], there[kind])

    def test_dump_and_plots(self) -> None:
        from torch.cuda._memory_viz import memory, profile_plot, segment_plot, segments, segsum, trace, trace_plot

        torch.cuda.memory._record_memory_history("all", stacks="python")
        kept = [torch.empty(size * 1000, device=DEVICE) for size in range(1, 5)]
        kept.pop()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            torch.cuda.memory._dump_snapshot(path)
            with open(path, "rb") as file:
                snapshot = pickle.load(file)
        sizes = {block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"]}
        self.assertLessEqual({4000, 8000, 12000}, sizes)
        self.assertIn("backend:cufence", snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"])
        self.assertRegex(trace(snapshot), r"(\w) = cudaMalloc\(\d+, 2.0MiB\)\n\w = \1\[2093152:3.9KiB\]")
        self.assertTrue(segsum(snapshot))
        for lines in (segments, memory):
            self.assertIn(";active_allocated", lines(snapshot, format_flamegraph=str))
        self.check_replay(snapshot)
        for plot in (trace_plot, segment_plot):
            self.assertGreater(len(plot(snapshot)), 1000)
        with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profile:
            torch.ones(1000, device=DEVICE)
        self.assertGreater(len(profile_plot(profile)), 1000)


class Pools(Case):
    def segments(self, pool: object) -> list:
        return [segment for segment in torch.cuda.memory_snapshot() if segment["segment_pool_id"] == pool.id]

    def test_use_count(self) -> None:
        pool = torch.cuda.MemPool()
        self.assertEqual(pool.use_count(), 1)
        with torch.cuda.use_mem_pool(pool):
            self.assertEqual(pool.use_count(), 2)
            tensor = int8(1 << 20)
        self.assertEqual(pool.use_count(), 1)
        self.assertEqual(len(self.segments(pool)), 1)
        self.assertEqual(len(pool.snapshot()), 1)
        self.assertEqual(int(tensor.sum()), 1 << 20)

    def test_keeps_its_memory(self) -> None:
        pool = torch.cuda.MemPool(no_split=True)
        with torch.cuda.use_mem_pool(pool):
            address = int8(3 << 20).data_ptr()
        outside = int8(3 << 20)
        self.assertNotEqual(outside.data_ptr(), address)
        with torch.cuda.use_mem_pool(pool):
            self.assertEqual(int8(3 << 20).data_ptr(), address)

    def test_end(self) -> None:
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensor = int8(64 << 20)
        before = torch.cuda.memory_reserved()
        del tensor, pool
        torch.cuda.empty_cache()
        self.assertLessEqual(torch.cuda.memory_reserved(), before - (64 << 20))

    def test_threads(self) -> None:
        """Only the thread that uses it allocates from it."""
        pool = torch.cuda.MemPool()
        found: list[int] = []
        with torch.cuda.use_mem_pool(pool):
            inside = int8(1000)
            thread = threading.Thread(target=lambda: found.append(int8(2000)))
            thread.start()
            thread.join()
        self.assertEqual(sum(segment["allocated_size"] for segment in self.segments(pool)), 1000)
        del inside

    def test_nested(self) -> None:
        inner, outer = torch.cuda.MemPool(), torch.cuda.MemPool()
        kept = []
        with torch.cuda.use_mem_pool(outer):
            with torch.cuda.use_mem_pool(inner):
                kept.append(int8(3 << 20))
            kept.append(int8(5 << 20))
        self.assertEqual([segment["allocated_size"] for segment in self.segments(inner)], [3 << 20])
        self.assertEqual([segment["allocated_size"] for segment in self.segments(outer)], [5 << 20])

    def test_end_leaves_the_others_cache(self) -> None:
        int8(64 << 20)
        pool, reserved = torch.cuda.MemPool(), torch.cuda.memory_reserved()
        del pool
        self.assertEqual(torch.cuda.memory_reserved(), reserved)

    def test_use_on_oom(self) -> None:
        free = torch.cuda.mem_get_info()[0]
        part = int(free * 0.6)
        for may_lend in (False, True):
            pool = torch.cuda.MemPool(use_on_oom=may_lend)
            with torch.cuda.use_mem_pool(pool):
                torch.empty(part, dtype=torch.uint8, device=DEVICE)
            if may_lend:
                torch.empty(part, dtype=torch.uint8, device=DEVICE)
            else:
                with self.assertRaises(torch.OutOfMemoryError):
                    torch.empty(part, dtype=torch.uint8, device=DEVICE)
            del pool
            torch.cuda.empty_cache()

    def test_own_allocator(self) -> None:
        compiler = shutil.which("g++") or shutil.which("c++")
        loaded = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcudart.so" in line]
        if not compiler or not loaded:
            self.skipTest("no C++ compiler, or no libcudart")
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        source, library = Path(holder.name, "own.cpp"), Path(holder.name, "own.so")
        source.write_text("""
#include <cstddef>
extern "C" { int cudaMalloc(void **, size_t); int cudaFree(void *); int taken, given;
void *take(size_t size, int, void *) { void *p = nullptr; if (cudaMalloc(&p, size)) return nullptr; taken++; return p; }
void give(void *p, size_t, int, void *) { given++; cudaFree(p); } }
""")
        subprocess.run([compiler, "-shared", "-fPIC", str(source), loaded[0], "-o", str(library)], check=True)
        own = torch.cuda.memory.CUDAPluggableAllocator(str(library), "take", "give")
        counts = ctypes.CDLL(str(library))

        def count(name: str) -> int:
            return ctypes.c_int.in_dll(counts, name).value

        pool = torch.cuda.MemPool(own.allocator())
        allocated = torch.cuda.memory_allocated()
        with torch.cuda.use_mem_pool(pool):
            tensor = int8(1000)
            self.assertEqual(count("taken"), 1)
            address = tensor.data_ptr()
            self.assertEqual(torch.cuda.memory_allocated() - allocated, 1000)
            del tensor
            tensor = int8(1000)
            self.assertEqual((tensor.data_ptr(), count("taken"), count("given")), (address, 1, 0))
        self.assertEqual(int(tensor.sum()), 1000)
        int8(1000)
        self.assertEqual(count("taken"), 1, "others do not use it")
        inner = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool), torch.cuda.use_mem_pool(inner):
            kept = int8(2000)
        self.assertEqual([segment["allocated_size"] for segment in self.segments(inner)], [2000])
        self.assertEqual(count("taken"), 1, "the inner one counts")
        del tensor, pool, kept, inner
        torch.cuda.empty_cache()
        self.assertEqual((count("given"), torch.cuda.memory_allocated()), (1, allocated))


if __name__ == "__main__":
    unittest.main()
