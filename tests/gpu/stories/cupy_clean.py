"""CuPy without a bug: elementwise kernels, sorting, matrix products and two streams, results compared with NumPy's."""

import cupy
import numpy

random = numpy.random.default_rng(8)
for step in range(30):
    left = random.standard_normal((17 + step, 33)).astype(numpy.float32)
    right = random.standard_normal((33, 5 + step)).astype(numpy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        product = cupy.asarray(left) @ cupy.asarray(right)
        order = cupy.sort(product.ravel())
        total = cupy.tanh(product).sum()
        stream.synchronize()
    expected = left @ right
    numpy.testing.assert_allclose(product.get(), expected, rtol=1e-2, atol=1e-2)
    numpy.testing.assert_array_equal(order.get(), numpy.sort(product.get().ravel()))
    numpy.testing.assert_allclose(float(total), numpy.tanh(expected).sum(), rtol=1e-2, atol=1e-1)
print("30 products are right")
