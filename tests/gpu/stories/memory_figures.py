"""torch.cuda's memory statistics, compared with the sum of the tensors' sizes.

Exact: memory_allocated(), max_memory_allocated(), memory_stats() and the limit of set_per_process_memory_fraction().
The native allocator rounds each tensor up to 512 bytes; here a tensor counts with its requested bytes. Reserved memory is
mapped memory, in whole pages of 2 MiB, plus memory kept for reuse, which empty_cache() releases. The limit is one of reserved memory.
"""

import gc

import torch

MIB = 1 << 20


def settled():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


torch.cuda.init()
assert settled() == 0, settled()
assert torch.cuda.max_memory_allocated() == 0

small = torch.empty(1000, device="cuda")
odd = torch.empty(1001, device="cuda", dtype=torch.float16)
large = torch.empty(100 * MIB + 4, device="cuda", dtype=torch.uint8)
expected = 4000 + 2002 + 100 * MIB + 4
assert settled() == expected, (settled(), expected)
stats = torch.cuda.memory_stats()
for name in ("allocated_bytes", "active_bytes"):
    assert stats[f"{name}.all.current"] == expected, stats
reserved = torch.cuda.memory_reserved()
assert expected <= reserved <= expected + 8 * MIB, (reserved, expected)
print("allocated bytes are exact")

temporary = torch.empty(64 * MIB, device="cuda", dtype=torch.uint8)
del temporary
assert settled() == expected
peak = torch.cuda.max_memory_allocated()
assert peak == expected + 64 * MIB, (peak, expected)
torch.cuda.reset_peak_memory_stats()
peak = torch.cuda.max_memory_allocated()
assert peak == expected, (peak, expected)
print("the peak follows, and is reset")

cached = torch.cuda.memory_reserved()
assert cached >= expected + 64 * MIB, (cached, expected)  # the freed 64 MiB are kept for reuse
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() <= cached - 64 * MIB, (torch.cuda.memory_reserved(), cached)
assert settled() == expected
print("empty_cache gives back")

free, total = torch.cuda.mem_get_info()
gigabyte = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
after, again = torch.cuda.mem_get_info()
assert again == total
assert abs(free - after - (1 << 30)) <= 64 * MIB, (free, after)
assert settled() == expected + (1 << 30)
del gigabyte
settled()
torch.cuda.empty_cache()
back, _ = torch.cuda.mem_get_info()
assert abs(back - free) <= 64 * MIB, (back, free)
print("mem_get_info tells the truth")

limit = 256 * MIB
torch.cuda.set_per_process_memory_fraction(limit / total)
within = torch.empty(limit - expected - 8 * MIB, device="cuda", dtype=torch.uint8)
try:
    torch.empty(4 * MIB, device="cuda", dtype=torch.uint8)
    raise SystemExit("more than the fraction was handed out")
except torch.OutOfMemoryError as error:
    print("the fraction holds:", str(error).splitlines()[0])
torch.cuda.set_per_process_memory_fraction(1.0)
beyond = torch.empty(2 * MIB, device="cuda", dtype=torch.uint8)
assert settled() == expected + within.numel() + beyond.numel()
del small, odd, large, within, beyond
assert settled() == 0, settled()
print("everything is freed")
