"""What the adapters' tests run in processes of their own: stand-ins for vLLM and SGLang, and what is done with these or the
real ones.

The real ones are imported from their sources without what they need: every other module of theirs is an empty one."""

from __future__ import annotations

# A tensor, as far as the adapters look: of 2-byte elements in the memory at `storage`.
TENSOR = """
storage = 4096
class Device: type, index = "cuda", 0
class Tensor:
    device, is_cuda, bytes = Device, True, 2
    def __init__(self, start, count, *shape): self.start, self.count, self.shape = start, count, shape
    def untyped_storage(self): return Tensor(storage, 0)
    def new_empty(self, count): return Tensor(0, 0)
    def set_(self, storage, offset, shape): return Tensor(storage.start + 2 * offset, shape[0])
    def data_ptr(self): return self.start
    def numel(self): return self.count
    def element_size(self): return self.bytes
    def is_contiguous(self): return True
"""

# A process that sees the adapters' divisions without a device: `told` has what they said.
RECORDED = (
    TENSOR
    + """
import cufence, sys
from cufence import _regions
told = []
class Division:
    def __init__(self, tensor, rows, names):
        told.append(("divided", names, tensor.data_ptr(), tensor.numel() * tensor.element_size() // rows, rows))
        self.names = names
def take(divisions, rows, owner=None):
    rows = list(rows)
    told.extend(("taken", division.names, row, owner) for division in divisions for row in rows)
def release(divisions, rows):
    rows = list(rows)
    told.extend(("released", division.names, row) for division in divisions for row in rows)
_regions.regions, _regions.take, _regions.release = Division, take, release
def expect(*wanted):
    assert told == list(wanted), told
    told.clear()
"""
)

# Finds the modules of a package in its sources, where they are named, and makes up all others.
SOURCES = """
import importlib.abc, importlib.machinery, importlib.util, types
class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()
class Anything(metaclass=Meta):
    def __init__(self, *_, **__): pass
    def __bool__(self): return False
    def __call__(self, *given, **_): return given[0] if given else self  # a decorator, perhaps
    def __init_subclass__(cls, **_): pass
    def __class_getitem__(cls, _): return cls
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None
class Empty(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Meta(name, (Anything,), {})
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != PACKAGE:
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, FOLDER + "/" + name.replace(".", "/") + ".py")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec): return Empty(spec.name)
    def exec_module(self, module): pass
sys.meta_path.insert(1, Finder())  # behind cufence's
"""

VLLM_POOL = """
class Block:
    ref_cnt, block_hash, is_null = 0, None, False
    def __init__(self, number, pool): self.block_id, self.pool = number, pool
    def set_block_hash(self, found, tokens): self.block_hash = found
class BlockPool:
    def __init__(self, num_gpu_blocks, enable_caching, hash_block_size):
        self.num_gpu_blocks, self.enable_caching = num_gpu_blocks, enable_caching
        self.blocks = [Block(i, self) for i in range(num_gpu_blocks)]
        self.null_block, *self.free = self.blocks
        self.null_block.is_null = True
    def get_new_blocks(self, num_blocks):
        found, self.free = self.free[:num_blocks], self.free[num_blocks:]
        for block in found:
            block.ref_cnt, block.block_hash = 1, None
        return found
    def touch(self, blocks):
        for block in blocks:
            block.ref_cnt += 1
    def free_blocks(self, ordered_blocks):
        for block in ordered_blocks:
            if not block.is_null:
                block.ref_cnt -= 1
                self.free += [block] if not block.ref_cnt else []
"""
VLLM_MANAGER = """
class KVCacheManager:
    def __init__(self, pool): self.pool = pool
    def allocate_slots(self, request, num_new_tokens): return self.pool.get_new_blocks(num_new_tokens)
"""
VLLM_UTILS = """
def allocate_kv_cache(kv_cache_config, device, layout, kernel_block_sizes=None):
    return {layer: kv_cache_config.memory for tensor in kv_cache_config.kv_cache_tensors for layer in tensor.layers}
"""

USE_VLLM = """
cufence.adapt("vllm")
import os, types
assert os.environ["CUFENCE_ADAPT"] == "vllm", "children follow it too"
from vllm.v1.core.block_pool import BlockPool
pool = BlockPool(5, True, 16)
expect()  # there is no memory that it is for
from cufence.adapters import vllm as adapter
def config(stride, layer_stride, layers, offset=0):
    tensor = types.SimpleNamespace(layers=layers, block_stride=stride, layer_stride=layer_stride, offset=offset)
    return types.SimpleNamespace(kv_cache_tensors=[tensor, tensor], num_blocks_of=lambda tensor: 4, memory=Tensor(4096, 0))
one = config(32, 128, ["layer.0", "layer.1"])
adapter._divide(one, {"layer.0": Tensor(4096, 0)})
expect(("divided", "layer.0", 4096, 32, 4), ("divided", "layer.1", 4224, 32, 4))  # once, although two groups share it
pool = BlockPool(4, True, 16)
expect(*[("released", layer, block) for layer in ("layer.0", "layer.1") for block in (1, 2, 3)])
BlockPool(4, True, 16).get_new_blocks(1)
expect()  # another engine's, whose memory is not divided
first = pool.get_new_blocks(2)
expect(*[("taken", layer, block, None) for layer in ("layer.0", "layer.1") for block in (1, 2)])
pool.touch([first[0]])  # by another request with the same prefix
pool.free_blocks(reversed(first))
expect(("released", "layer.0", 2), ("released", "layer.1", 2))
first[0].set_block_hash(b"a prefix", 16)
pool.free_blocks([first[0], pool.null_block])
expect()  # a later request may find its prefix there
pool.get_new_blocks(3)
assert {row[2] for row in told} == {1, 2, 3} and {row[0] for row in told} == {"taken"}, told
told.clear()
adapter._blocks = type(adapter._blocks)("packed")
packed = config(64, 32, ["layer.0", "layer.1"], offset=16)
adapter._divide(packed, {"layer.0": Tensor(4096, 0)})
expect(("divided", "kv", 4096, 64, 4))
"""
# With the stand-ins: what lies around the pool.
USE_VLLM_AROUND = """
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.worker.utils import allocate_kv_cache
adapter._blocks = type(adapter._blocks)("vLLM")
allocate_kv_cache(one, "cuda", None)
told.clear()
pool = BlockPool(4, False, 16)
told.clear()
found = KVCacheManager(pool).allocate_slots(types.SimpleNamespace(request_id="r7"), 1)
expect(("taken", "layer.0", 1, "request r7"), ("taken", "layer.1", 1, "request r7"))
found[0].block_hash = b"without a cache it is free all the same"
pool.free_blocks(found)
expect(("released", "layer.0", 1), ("released", "layer.1", 1))
"""
# With the real ones, whose other parts need a model: that they are what the adapter was made for.
USE_VLLM_REAL = """
import inspect
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.worker.utils import allocate_kv_cache
for function, parameter in ((KVCacheManager.allocate_slots, "request"), (allocate_kv_cache, "kv_cache_config")):
    assert parameter in inspect.signature(function.cufence_before).parameters
    assert parameter in inspect.signature(function).parameters
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheTensor
adapter._blocks = type(adapter._blocks)("vLLM")
tensors = [KVCacheTensor(size=256, layers=["layer.0", "layer.1"], layer_stride=128, block_stride=32)]
adapter._divide(KVCacheConfig(num_blocks=4, kv_cache_tensors=tensors, kv_cache_groups=[]), {"layer.0": Tensor(4096, 0)})
expect(("divided", "layer.0", 4096, 32, 4), ("divided", "layer.1", 4224, 32, 4))
"""

SGLANG = """
class Indices(list):
    def tolist(self): return list(self)
    def numel(self): return len(self)
    def __getitem__(self, at):
        found = list.__getitem__(self, at)
        return Indices(found) if isinstance(at, slice) else found
class Pool:
    def __init__(self, size, page_size, kvcache):
        self.size, self.page_size, self._kvcache = size, page_size, kvcache
        self.free_group = None
        self.clear()
    def get_kvcache(self): return self._kvcache
    def clear(self): self.free_pages, self.free_group = Indices(range(1, self.size // self.page_size + 1)), None
    def free_group_begin(self): self.free_group = []
    def free_group_end(self):
        pending, self.free_group = self.free_group, None
        if pending:
            self.free(Indices(sum(pending, [])))
"""
SGLANG_TOKEN = (
    SGLANG
    + """
class TokenToKVPoolAllocator(Pool):
    def __init__(self, size, dtype, device, kvcache, need_sort): super().__init__(size, 1, kvcache)
    def alloc(self, need_size):
        if need_size > len(self.free_pages):
            return None
        found, self.free_pages = self.free_pages[:need_size], self.free_pages[need_size:]
        return found
    def free(self, free_index):
        if self.free_group is not None:
            self.free_group.append(free_index)
        else:
            self.free_pages = Indices(self.free_pages + free_index)
"""
)
SGLANG_PAGED = (
    SGLANG
    + """
class PagedTokenToKVPoolAllocator(Pool):
    def __init__(self, size, page_size, dtype, device, kvcache, need_sort): super().__init__(size, page_size, kvcache)
    def alloc(self, need_size):
        pages, self.free_pages = self.free_pages[: need_size // self.page_size], self.free_pages[need_size // self.page_size :]
        return Indices(page * self.page_size + i for page in pages for i in range(self.page_size))
    def alloc_extend(self): raise NotImplementedError
    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        page = last_loc[0] // self.page_size
        if last_loc[0] % self.page_size == self.page_size - 1:
            page, self.free_pages = self.free_pages[0], self.free_pages[1:]
            return Indices([page * self.page_size])
        return Indices([last_loc[0] + 1])
    def free(self, free_index): self._release_page_ids(Indices(sorted({i // self.page_size for i in free_index})))
    def _release_page_ids(self, *page_ids): self.free_pages = Indices(sum(map(list, page_ids), []) + self.free_pages)
"""
)

USE_SGLANG = """
cufence.adapt("sglang")
import types, warnings
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
class Cache:
    def __init__(self, tokens):
        self.k_buffer, self.v_buffer = [Tensor(4096, tokens * 8, tokens, 8)], [Tensor(65536, tokens * 8, tokens, 8)]
keys, values = "k of layer 0", "v of layer 0"
def both(*rows): return [(kind, name, row, *rest) for name in (keys, values) for kind, row, *rest in rows]
pool = TokenToKVPoolAllocator(4, DTYPE, "cpu", Cache(5), False)
expect(("divided", keys, 4096, 16, 5), ("divided", values, 65536, 16, 5), *both(*[("released", row) for row in (1, 2, 3, 4)]))
found = pool.alloc(2)
expect(*both(("taken", 1, None), ("taken", 2, None)))
assert pool.alloc(9) is None
pool.free_group_begin()
pool.free(found[:1])
expect()
pool.free_group_end()
expect(*both(("released", 1)))
pool.clear()
expect(*both(("released", 2)))
other = TokenToKVPoolAllocator(4, DTYPE, "cpu", None, False)
other.free(other.alloc(1))
expect()  # it has as many rows, and no memory that is followed
class Other(PagedTokenToKVPoolAllocator):
    def clear(self): PagedTokenToKVPoolAllocator.clear.cufence_before(self)
pool = Other(8, 4, DTYPE, "cpu", Cache(12), False)
pool.free(pool.alloc(4))
expect()  # a pool of another kind is not followed
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    TokenToKVPoolAllocator(4, DTYPE, "cpu", Cache(10), False)
assert len(said) == 2 and "the pool has 5 pages of 1" in str(said[0].message), said
expect()  # it could be divided into 5 rows, which are not its pages
pool = PagedTokenToKVPoolAllocator(8, 4, DTYPE, "cpu", Cache(12), False)
expect(("divided", keys, 4096, 64, 3), ("divided", values, 65536, 64, 3), *both(("released", 1), ("released", 2)))
found = pool.alloc(4)
expect(*both(("taken", 1, None)))
more = decode(pool, found.tolist()[-1])
assert more.tolist() == [8], more
expect(*both(("taken", 2, None)))
assert decode(pool, 8).tolist() == [9]
expect()  # the page is taken already
pool.free(found)
expect(*both(("released", 1)))
pool.clear()
expect(*both(("released", 2)))
"""
DECODE = "DTYPE = None\ndef decode(pool, last): return pool.alloc_decode(None, None, [last])\n"
DECODE_REAL = """
import torch
from sglang.srt.mem_cache.allocator import paged
paged.get_num_new_pages = lambda seq_lens, page_size, decode: int((seq_lens % page_size == 1).sum())
DTYPE = torch.float16
def decode(pool, last):
    lengths = torch.tensor([last - 2])  # 4 tokens of page 1, then those of page 2
    pool.use_triton_kernels = False
    return pool.alloc_decode(lengths, lengths, torch.tensor([last]))
"""

# On the simulated device: blocks of 64 bytes in a buffer of cufence's, of which one that was freed is written to.
USE_ROWS = """
import cufence, os, sys, types, ctypes
cufence.adapt("vllm")
from simulated import Driver
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.worker.utils import allocate_kv_cache
driver = Driver("libcuda.so.1")
storage = driver.allocate(4 * 64)
layer = types.SimpleNamespace(layers=["layer.0"], block_stride=64, layer_stride=256, offset=0)
config = types.SimpleNamespace(kv_cache_tensors=[layer], num_blocks_of=lambda tensor: 4, memory=Tensor(storage, 0))
allocate_kv_cache(config, "cuda", None)
manager = KVCacheManager(BlockPool(4, True, 16))
at = lambda block: cufence.describe(storage + 64 * block)["region"]
assert "live" in at(0) and "free" in at(1), (at(0), at(1))
first = manager.allocate_slots(types.SimpleNamespace(request_id="r7"), 2)
assert at(2) == "row 2 of layer.0 (live, owner request r7)", at(2)
manager.pool.free_blocks(first)
if sys.argv[1] == "late":
    driver.call("cuMemsetD8_v2", ctypes.c_uint64(storage + 2 * 64 + 8), 1, ctypes.c_size_t(4))
assert "free" in at(2) and "by request r7" in at(2), at(2)
manager.allocate_slots(types.SimpleNamespace(request_id="r8"), 3)
"""
