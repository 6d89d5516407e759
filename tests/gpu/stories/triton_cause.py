"""Triton kernels whose index is wrong: of a page, of an expert, of a row, or because it wraps. The first argument chooses one, a second is used instead."""

import sys

from shared import tl, torch, triton


@triton.jit
def k_pages(out, cache, pages, width, ROWS: tl.constexpr, DIM: tl.constexpr):
    at = tl.program_id(0) * width + tl.program_id(1)
    page = tl.load(pages + at).to(tl.int64)  # OFPAGES
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, DIM)[None, :]
    tile = tl.load(cache + page * (ROWS * DIM) + rows * DIM + columns)  # PAGES
    tl.store(out + at * DIM + tl.arange(0, DIM), tl.sum(tile, 0))


@triton.jit
def k_experts(out, weights, tid2eid, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    expert = tl.load(tid2eid + token)  # OFEXPERTS
    columns = tl.arange(0, BLOCK)
    weight = tl.load(weights + expert * dim + columns, mask=columns < dim)  # EXPERTS
    tl.store(out + token * dim + columns, weight, mask=columns < dim)


@triton.jit
def k_rows(out, table, keys, n, ROWS: tl.constexpr, DIM: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    key = tl.load(keys + i, mask=i < n, other=0)  # OFROWS
    columns = tl.arange(0, DIM)
    row = tl.load(table + key[:, None] * DIM + columns[None, :], mask=i[:, None] < n)  # ROWS
    tl.store(out + i[:, None] * DIM + columns[None, :], row, mask=i[:, None] < n)


@triton.jit
def k_wrap(out, stride, BLOCK: tl.constexpr):
    tl.store(out + tl.program_id(0) * stride + tl.arange(0, BLOCK), 1.0)  # WRAP


def pages(page: int = 70) -> list[torch.Tensor]:
    table = torch.arange(32, dtype=torch.int32, device="cuda").reshape(4, 8).contiguous()
    table[2, 5] = page
    out, cache = torch.empty(32, 64, device="cuda"), torch.zeros(32, 16, 64, device="cuda")
    k_pages[(4, 8)](out, cache, table, 8, ROWS=16, DIM=64)
    return [out, cache, table]


def experts(expert: int = 4104) -> list[torch.Tensor]:
    tid2eid = torch.arange(100, device="cuda") % 16
    tid2eid[40] = expert
    out, weights = torch.empty(100, 100, device="cuda"), torch.zeros(16, 100, device="cuda")
    k_experts[(100,)](out, weights, tid2eid, 100, BLOCK=128)
    return [out, weights, tid2eid]


def rows(key: int = 5000) -> list[torch.Tensor]:
    keys = torch.arange(100, dtype=torch.int32, device="cuda")
    keys[37] = key
    out, table = torch.empty(100, 64, device="cuda"), torch.zeros(100, 64, device="cuda")
    k_rows[(7,)](out, table, keys, 100, ROWS=16, DIM=64)
    return [out, table, keys]


def wrap(rows: int = 3072) -> list[torch.Tensor]:  # 3 GiB
    out = torch.empty(rows << 20, dtype=torch.int8, device="cuda")
    k_wrap[(rows,)](out, 1 << 20, BLOCK=128)
    return [out]


kept = globals()[sys.argv[1]](*map(int, sys.argv[2:]))
torch.cuda.synchronize()
