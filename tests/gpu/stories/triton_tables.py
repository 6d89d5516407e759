"""Attention over a paged cache, with a table of rows that cufence knows (cufence.index()), unless the second argument is "untold".
The first is what is wrong:
    clean        nothing
    off_by_one   a number is one too high
    other        a number is that of a row of the other request
    stale        a row was released, and its number is still there
    early        a row is released before its last token is written, and taken by another request (untold)
    late         the same in the right order
"""

import sys

import cufence
from shared import tl, torch, triton

ROWS, TOKENS, WIDTH, EACH = 64, 16, 64, 4


@triton.jit
def attend(out, query, cache, table, EACH: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr):
    request = tl.program_id(0)
    i = tl.arange(0, WIDTH)
    q = tl.load(query + i)
    total = tl.zeros((WIDTH,), tl.float32)
    weights = 0.0
    for n in range(EACH * TOKENS):
        row = tl.load(table + request * EACH + n // TOKENS)
        if row >= 0:
            token = cache + row * TOKENS * WIDTH + n % TOKENS * WIDTH
            value = tl.load(token + i)
            weight = tl.exp(tl.sum(q * value))
            total += weight * value
            weights += weight
    tl.store(out + request * WIDTH + i, total / weights)


@triton.jit
def write_token(cache, table, n, TOKENS: tl.constexpr, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    row = tl.load(table + n // TOKENS)
    tl.store(cache + row * TOKENS * WIDTH + n % TOKENS * WIDTH + i, tl.full((WIDTH,), 0.02, tl.float32))


bug, is_told = sys.argv[1], sys.argv[2:] != ["untold"]
cache = torch.full((ROWS + 1, TOKENS, WIDTH), 0.01, device="cuda")  # the last one is no row: a number that is wrong by one stays inside
table = torch.tensor([[0, 1, 2, -1], [5, 6, -1, -1]], dtype=torch.int32, device="cuda")
query, out = torch.ones(WIDTH, device="cuda"), torch.empty(2, WIDTH, device="cuda")
kv = cufence.regions(cache[:ROWS], names="kv")
for request, rows in enumerate(([0, 1, 2], [5, 6])):
    for row in rows:
        kv.take(row, owner=f"request {request}")
    if is_told:
        cufence.index(table[request], into=kv, owner=f"request {request}")
if bug == "off_by_one":
    table[1, 1] = ROWS
if bug == "other":
    table[0, 2] = 5
if bug == "late":
    write_token[(1,)](cache, table[1], 2 * TOKENS - 1, TOKENS=TOKENS, WIDTH=WIDTH)
if bug in ("stale", "early", "late"):
    kv.release(6)
if bug == "early":
    write_token[(1,)](cache, table[1], 2 * TOKENS - 1, TOKENS=TOKENS, WIDTH=WIDTH)  # LATE
if bug in ("early", "late"):
    kv.take(6, owner="request 2")
    cache[6] = 0.01
attend[(2,)](out, query, cache, table, EACH=EACH, TOKENS=TOKENS, WIDTH=WIDTH)  # ATTENDED
torch.cuda.synchronize()
print("finite:", bool(torch.isfinite(out).all()))
