import cupy as cp
from cupyx.scipy.sparse import csr_matrix
cp.cuda.set_allocator(None)
print(csr_matrix(cp.asarray([[1.0, 2, 3, 4, 0]])).argmax(axis=1))
