"""A DataLoader with two worker processes and pinned memory under a program that uses CUDA. Argument: fork or spawn; or early: a
worker that is forked after `import torch` uses CUDA, and then the program."""

import ctypes
import os
import sys

import torch


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return torch.full((101,), float(index * index))


def main(how):
    weight = torch.ones(101, device="cuda")  # CUDA runs before the workers start
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=how, persistent_workers=True
    )
    for _ in range(2):
        total = 0.0
        for batch in loader:
            assert batch.is_pinned()
            total += float((batch.cuda(non_blocking=True) @ weight).double().sum())
        expected = 101.0 * sum(index * index for index in range(200))
        assert total == expected, (total, expected)
    print("two epochs are right")


def early():
    result = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    assert result == 3, f"import torch has started the driver: {result}"  # CUDA_ERROR_NOT_INITIALIZED
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    assert float(torch.arange(101, device="cuda").sum()) == 5050.0
    print("the program is right" if child else "the worker is right", flush=True)


if __name__ == "__main__":
    early() if sys.argv[1] == "early" else main(sys.argv[1])
