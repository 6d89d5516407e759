"""A stand-in for the parts of PyTorch and Triton that cufence looks names up in. Its tensors lie where a test says.

Use: sys.path has the folder that write() made; the kernels of `triton` are instances of CompiledKernel.
"""

from __future__ import annotations

from pathlib import Path

_TORCH = '''
import contextlib, types

class Storage:
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address

class Tensor:
    is_cuda = True
    is_leaf = True
    grad = None
    is_cow = False
    def __init__(self, address, shape, dtype="float32", strides=None, offset=0, size=4):
        self.storage, self.shape, self.dtype = Storage(address), tuple(shape), f"torch.{dtype}"
        self.offset, self.size = offset, size
        whole, own = 1, []
        for length in reversed(shape):
            own.insert(0, whole)
            whole *= length
        self.strides = tuple(strides or own)
    def untyped_storage(self):
        if self.is_cow:
            raise SystemExit("a copy-on-write tensor was materialised")
        return self.storage
    def element_size(self): return self.size
    def storage_offset(self): return self.offset
    def stride(self): return self.strides
    def numel(self):
        product = 1
        for length in self.shape:
            product *= length
        return product
    def __getattr__(self, name):
        raise AssertionError(f"{name} of a tensor was asked for")

class Lazy(Tensor):
    def untyped_storage(self): raise NotImplementedError("no storage")

class Module:
    def __init__(self):
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})
    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                return self.__dict__[kind][name]
        raise AttributeError(name)

class Optimizer:
    def __init__(self): self.state = {}
class Adam(Optimizer): pass

nn = types.SimpleNamespace(Module=Module)
_C = types.SimpleNamespace(_is_cow_tensor=lambda tensor: tensor.is_cow, DisableTorchFunctionSubclass=contextlib.nullcontext)
'''

_TRITON = '''
class Source:
    def __init__(self, signature, constants): self.signature, self.constants = signature, constants
class Metadata:
    def __init__(self, name, num_warps): self.name, self.num_warps = name, num_warps
class CompiledKernel:
    def __init__(self, name, signature, constants, num_warps=4):
        self.name, self.src, self.metadata = name, Source(signature, constants), Metadata(name, num_warps)
    def __getattribute__(self, name):
        assert name != "run", "that would load the kernel"
        return super().__getattribute__(name)
'''


def write(folder: Path) -> None:
    for name, text in (("torch", _TORCH), ("triton", _TRITON)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
    (folder / "torch" / "optim.py").write_text("from . import Optimizer, Adam\n")
