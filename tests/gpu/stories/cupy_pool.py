"""Figures of CuPy's MemoryAsyncPool, which are those of the driver's pool: bytes that are used, and bytes reserved in steps."""

import cupy

pool = cupy.cuda.MemoryAsyncPool()
pool.free_all_blocks()
used, total = pool.used_bytes(), pool.total_bytes()


def check(bytes_used: int, reserved: int) -> None:
    figures = pool.used_bytes() - used, pool.total_bytes(), pool.free_bytes()
    assert figures == (bytes_used, reserved, reserved - used - bytes_used), (figures, bytes_used, reserved)


first = pool.malloc(1024)
reserved = pool.total_bytes()
assert reserved >= total + 1024, (reserved, total)
check(1024, reserved)
second = pool.malloc(2048)
check(3072, reserved)
del first
check(2048, reserved)
del second
check(0, reserved)
pool.free_all_blocks()
check(0, total)
third = pool.malloc(512)
check(512, reserved)
del third
print("used and reserved bytes are the driver's")
