"""A JAX training step under jit: a two-layer network learns, and ends with the same loss as without cufence."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(4)
data = jax.device_put(random.standard_normal((65, 33), dtype=np.float32))
target = jax.device_put(random.standard_normal((65, 7), dtype=np.float32))
parameters = [
    jax.device_put(random.standard_normal(shape, dtype=np.float32) / 6) for shape in ((33, 129), (129,), (129, 7), (7,))
]


def loss(parameters, data, target):
    hidden = jnp.tanh(data @ parameters[0] + parameters[1])
    return jnp.mean((hidden @ parameters[2] + parameters[3] - target) ** 2)


@jax.jit
def step(parameters, data, target):
    value, gradients = jax.value_and_grad(loss)(parameters, data, target)
    return value, [parameter - 0.1 * gradient for parameter, gradient in zip(parameters, gradients, strict=True)]


first, parameters = step(parameters, data, target)
for _ in range(100):
    value, parameters = step(parameters, data, target)
assert float(value) < 0.7 * float(first), (float(first), float(value))
print("learned", f"{float(value):.2f}")
