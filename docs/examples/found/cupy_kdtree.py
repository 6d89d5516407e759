import cupy as cp
from cupyx.scipy.spatial import KDTree
cp.cuda.set_allocator(None)
print(KDTree(cp.asarray([[0.1, 0.1], [0.2, 0.2]]), boxsize=1.0).query(cp.asarray([[0.4, 0.4]])))
