import cupy as cp
bins = cp.full(4, cp.nan)          # 32 bytes
values = cp.asarray([1.0])
print(cp.digitize(values, bins))
