"""SGLang: a page of its pool (sglang.srt.mem_cache.allocator) is a row in the keys and in the values of each layer; with pages
of one token, a token is. Page 0 takes the padding, and stays live.

The pool keeps its indices on the device, so each step of it waits for the device here. Follows SGLang 0.5.22 and 0.5.23, except for
pools of another kind: with pages interleaved over several GPUs, HiSparse, and unified ones."""

from __future__ import annotations

import contextlib

from .. import _library, _regions
from .._patches import _replace
from .rows import Blocks

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def _rows(pool: Any) -> int:
    return int(pool.size) // int(pool.page_size) + 1


def _buffers(cache: Any) -> list[tuple[str, Any]]:
    named = [(name, getattr(cache, f"{name}_buffer", None)) for name in ("k", "v", "kv")]
    return [(f"{name} of layer {i}", tensor) for name, tensors in named for i, tensor in enumerate(tensors or [])]


def _divided(pool: Any) -> list[_regions.Regions]:
    return pool.__dict__.get("cufence_rows", [])  # type: ignore[no-any-return]


def _live(pool: Any) -> set[int]:
    live: set[int] = pool.__dict__.setdefault("cufence_live", set())
    return live


def _start(pool: Any) -> None:
    """All pages are free: the pool is new, or was cleared or resized."""
    rows = _rows(pool)
    if pool.__dict__.get("cufence_count") != rows:
        for division in _divided(pool):
            with contextlib.suppress(_library.Error):  # its memory may be gone
                division.gone()
        blocks = Blocks("SGLang's KV cache")
        for name, tensor in _buffers(pool.get_kvcache()):
            if tensor.shape[0] not in (rows, rows * pool.page_size):  # it leads with pages or with tokens
                blocks.leave(name, f"its shape is {tuple(tensor.shape)}, and the pool has {rows} pages of {pool.page_size}")
            elif tensor.is_cuda:
                blocks.divide(tensor, rows, name)
        pool.cufence_rows, pool.cufence_count, pool.cufence_live = blocks.claim(rows), rows, set(range(1, rows))
    _release(pool, _live(pool))


def _release(pool: Any, pages: set[int]) -> None:
    gone = pages & _live(pool)
    _regions.release(_divided(pool), sorted(gone))
    pool.cufence_live = _live(pool) - gone


def _take(before: Any) -> Any:
    def taking(self: Any, *others: Any, **named: Any) -> Any:
        found = before(self, *others, **named)
        if found is not None and _divided(self):
            new = {i // self.page_size for i in found.tolist()} - _live(self) - {0}
            _regions.take(_divided(self), sorted(new))
            _live(self).update(new)
        return found

    return taking


def _clear(before: Any) -> Any:
    def clear(self: Any) -> None:
        before(self)
        _start(self)

    return clear


def _free_tokens(before: Any) -> Any:
    def free(self: Any, free_index: Any) -> None:
        is_now = self.free_group is None
        before(self, free_index)
        if is_now and _divided(self):
            _release(self, set(free_index.tolist()))

    return free


def _free_pages(before: Any) -> Any:
    def _release_page_ids(self: Any, *page_ids: Any) -> None:
        before(self, *page_ids)
        if _divided(self):
            _release(self, {page for ids in page_ids for page in ids.tolist()})

    return _release_page_ids


def patch(module: ModuleType) -> None:
    is_paged = hasattr(module, "PagedTokenToKVPoolAllocator")
    pool = module.PagedTokenToKVPoolAllocator if is_paged else module.TokenToKVPoolAllocator
    for name in ("alloc", "alloc_extend", "alloc_decode") if is_paged else ("alloc",):
        _replace(pool, name, _take)
    _replace(pool, "clear", _clear)
    _replace(pool, "_release_page_ids" if is_paged else "free", _free_pages if is_paged else _free_tokens)
