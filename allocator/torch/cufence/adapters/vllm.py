"""vLLM: a block of its pool (vllm.v1.core.block_pool) is a row in the memory of each layer, owned by the request that has it.

A block that a prefix cache may still find stays live when its last request gives it back: its contents are needed. Where the
pool and the memory are in different processes, as with tensor parallelism, nothing is followed. Follows vLLM 0.31 to 0.33, whose
KVCacheTensor says where each layer's blocks lie."""

from __future__ import annotations

from .. import _regions
from .._patches import _replace
from .rows import Blocks

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

_blocks = Blocks("vLLM's KV cache")
_owner: Any = None  # the request that blocks are being allocated for; the scheduler has one thread


def _divide(config: Any, caches: dict[str, Any]) -> None:
    for tensor in config.kv_cache_tensors:
        view = caches[tensor.layers[0]]
        if view.device.type != "cuda":
            continue
        memory = view.new_empty(0).set_(view.untyped_storage(), 0, (0,))
        count, stride = config.num_blocks_of(tensor), tensor.block_stride
        is_packed = stride > tensor.layer_stride  # the pages of all layers lie side by side in a block
        for i, layer in enumerate(tensor.layers[: 1 if is_packed else None]):
            at = 0 if is_packed else tensor.offset + i * tensor.layer_stride
            size = memory.element_size()
            rows = memory.set_(view.untyped_storage(), at // size, (count * stride // size,))
            _blocks.divide(rows, count, "kv" if is_packed else layer)


def _patch_utils(module: Any) -> None:
    def wrap(before: Any) -> Any:
        def allocate_kv_cache(kv_cache_config: Any, *others: Any, **named: Any) -> Any:
            caches = before(kv_cache_config, *others, **named)
            _divide(kv_cache_config, caches)
            return caches

        return allocate_kv_cache

    _replace(module, "allocate_kv_cache", wrap)


def _patch_manager(module: Any) -> None:
    def wrap(before: Any) -> Any:
        def allocate_slots(self: Any, request: Any, *others: Any, **named: Any) -> Any:
            global _owner
            _owner = f"request {request.request_id}"
            try:
                return before(self, request, *others, **named)
            finally:
                _owner = None

        return allocate_slots

    _replace(module.KVCacheManager, "allocate_slots", wrap)


def _patch_pool(module: Any) -> None:
    def wrap_init(before: Any) -> Any:
        def __init__(self: Any, *others: Any, **named: Any) -> None:
            before(self, *others, **named)
            self.cufence_rows = _blocks.claim(self.num_gpu_blocks)
            _regions.release(self.cufence_rows, (b.block_id for b in self.blocks if b is not self.null_block))

        return __init__

    def wrap_new(before: Any) -> Any:
        def get_new_blocks(self: Any, num_blocks: int) -> Any:
            found = before(self, num_blocks)
            _regions.take(self.cufence_rows, [block.block_id for block in found], _owner)
            return found

        return get_new_blocks

    def wrap_free(before: Any) -> Any:
        def free_blocks(self: Any, ordered_blocks: Iterable[Any]) -> None:
            blocks = list(ordered_blocks)
            used = {b.block_id for b in blocks if b.ref_cnt > 0 and not b.is_null and getattr(b, "pool", None) in (None, self)}
            before(self, blocks)
            gone = [b.block_id for b in blocks if b.ref_cnt == 0 and (b.block_hash is None or not self.enable_caching)]
            _regions.release(self.cufence_rows, used.intersection(gone))

        return free_blocks

    _replace(module.BlockPool, "__init__", wrap_init)
    _replace(module.BlockPool, "get_new_blocks", wrap_new)
    _replace(module.BlockPool, "free_blocks", wrap_free)


def patch(module: ModuleType) -> None:
    {"block_pool": _patch_pool, "kv_cache_manager": _patch_manager, "utils": _patch_utils}[module.__name__.rpartition(".")[2]](
        module
    )
