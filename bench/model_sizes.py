#!/usr/bin/env python3
"""Allocates what a model's training or inference holds between two steps, tensor by tensor, from the published shapes.

    cufence run --estimate -- python3 bench/model_sizes.py gpt2 --train
    cufence run --estimate -- python3 bench/model_sizes.py llama-7b

Needs no PyTorch and loads no weights: the sizes go to cuMemAllocAsync, as PyTorch's back end cudaMallocAsync asks for them. With --train
each tensor has a gradient and Adam's two states as well, all of them float32. Activations are left out: they depend on the batch.
The figures in docs/memory.md come from here.
"""

import argparse
import ctypes
import sys


def gpt2(width=768, layers=12, words=50257, positions=1024):
    yield from (words * width, positions * width, width, width)
    for _ in range(layers):
        yield from (width, width, width, width)  # two norms
        for rows, columns in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            yield from (rows * columns, columns)


def resnet50():
    def convolution(inside, outside, size):
        yield inside * outside * size * size
        yield from (outside,) * 4  # the norm's weight, bias, mean and variance
        yield 2  # how many batches it has seen, an int64

    yield from convolution(3, 64, 7)
    inside = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            yield from convolution(inside, width, 1)
            yield from convolution(width, width, 3)
            yield from convolution(width, 4 * width, 1)
            if not block:
                yield from convolution(inside, 4 * width, 1)
            inside = 4 * width
    yield from (2048 * 1000, 1000)


def llama_7b(width=4096, layers=32, inner=11008, words=32000):
    yield from (words * width, width, words * width)
    for _ in range(layers):
        yield from (width * width,) * 4
        yield from (width * inner,) * 3
        yield from (width, width)


MODELS = {"gpt2": (gpt2, 4), "resnet50": (resnet50, 4), "llama-7b": (llama_7b, 2)}  # and bytes of an element


def must(result, call):
    if result:
        sys.exit(f"model_sizes: {call} returns {result}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    elements, width = MODELS[options.model]
    sizes = [count * (4 if options.train else width) for count in elements() for _ in range(4 if options.train else 1)]
    driver = ctypes.CDLL("libcuda.so.1")
    context, address, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
    must(driver.cuInit(0), "cuInit")
    must(driver.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    must(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    must(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    for size in sizes:
        must(driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(size), None), f"cuMemAllocAsync of {size} bytes")
    must(driver.cuCtxSynchronize(), "cuCtxSynchronize")
    print(f"{options.model}: {len(sizes)} tensors, {sum(sizes) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
