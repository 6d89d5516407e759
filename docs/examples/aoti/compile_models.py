"""Compiles the models of this example with AOTInductor: compile_models.py FOLDER

Writes into FOLDER
  activation.pt2   its Triton op reads past an intermediate tensor when the input is no multiple of 1024 floats
  weight.pt2       its Triton op reads past a weight of 1000 floats
  outside.pt2      the same as weight.pt2, compiled without its weights ...
  weights.pt       ... which are here, for the C++ program to load
  nan.pt2          its third kernel takes the logarithm of a negative number, in one element of 1024
"""

import sys
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def k_double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # the bug: nothing keeps i below n
    tl.store(y + i, v * 2.0, mask=i < n)


@triton.jit
def k_gain(x, gain, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    g = tl.load(gain + i)  # the bug: nothing keeps i below n
    tl.store(y + i, v * g, mask=i < n)


@torch.library.triton_op("example::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    torch.library.wrap_triton(k_double)[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y


@torch.library.triton_op("example::apply_gain", mutates_args=())
def apply_gain(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    torch.library.wrap_triton(k_gain)[(triton.cdiv(n, 1024),)](x, gain, y, n, BLOCK=1024)
    return y


class Activation(torch.nn.Module):
    def forward(self, x):
        return double(torch.relu(x) + 1.0)


class Weight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.full((1000,), 3.0), requires_grad=False)
        self.bias = torch.nn.Parameter(torch.ones(1000), requires_grad=False)  # lies behind gain in the block of constants

    def forward(self, x):
        return apply_gain(torch.relu(x), self.gain) + self.bias


class Logarithm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1024), requires_grad=False)
        self.scale.data[417] = -1.0

    def forward(self, x):
        return torch.log(double(torch.relu(x) + 1.0) * self.scale)


def compile_model(model, count, package, **settings):
    shapes = {"x": {0: torch.export.Dim("count", min=2, max=1 << 20)}} if count is None else None
    example = torch.ones(count or 2048, device="cuda")
    program = torch.export.export(model.cuda(), (example,), dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(package), inductor_configs=settings)
    print("compiled", package.name, flush=True)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    compile_model(Activation(), None, folder / "activation.pt2")
    compile_model(Weight(), 1000, folder / "weight.pt2")
    compile_model(Logarithm(), 1024, folder / "nan.pt2")
    model = Weight()
    torch.save({name: tensor.clone() for name, tensor in model.state_dict().items()}, folder / "weights.pt")
    compile_model(model, 1000, folder / "outside.pt2", **{"aot_inductor.package_constants_in_so": False})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
