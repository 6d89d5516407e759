#include "pinned.h"

#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define SLAB (UINT64_C(4) << 20) /* a larger piece gets a slab of its own size */
#define STEP 64u

struct pinned_piece {
    struct pinned_piece *next;
    uint8_t *at;
    size_t bytes;
    int is_taken, begins_slab;
};

static size_t rounded(size_t size)
{
    return size ? (size + STEP - 1) / STEP * STEP : STEP;
}

/* Cuts what is left of a free piece off. Without host memory for that, the piece stays as large as it is. */
static void cut(struct pinned_piece *piece, size_t size)
{
    struct pinned_piece *rest = piece->bytes > size ? malloc(sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = (struct pinned_piece){.next = piece->next, .at = piece->at + size, .bytes = piece->bytes - size};
    piece->next = rest;
    piece->bytes = size;
}

static struct pinned_piece *find(struct pinned *pinned, size_t size)
{
    struct pinned_piece *piece = pinned->pieces;
    while (piece && (piece->is_taken || piece->bytes < size))
        piece = piece->next;
    return piece;
}

static struct pinned_piece *add_slab(struct pinned *pinned, size_t size)
{
    size_t bytes = size > SLAB ? size : SLAB;
    void *at = NULL;
    if (bytes > pinned->limit - pinned->bytes)
        bytes = size;
    struct pinned_piece *piece = bytes <= pinned->limit - pinned->bytes ? malloc(sizeof *piece) : NULL;
    if (!piece || driver->cuMemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) {
        free(piece);
        return NULL;
    }
    *piece = (struct pinned_piece){.next = pinned->pieces, .at = at, .bytes = bytes, .begins_slab = 1};
    pinned->pieces = piece;
    pinned->bytes += bytes;
    return piece;
}

uint8_t *pinned_take(struct pinned *pinned, size_t size)
{
    size = rounded(size);
    struct pinned_piece *piece = find(pinned, size);
    if (!piece)
        piece = add_slab(pinned, size);
    if (!piece)
        return NULL;
    cut(piece, size);
    piece->is_taken = 1;
    memset(piece->at, 0, size);
    return piece->at;
}

static void join_next(struct pinned_piece *piece)
{
    struct pinned_piece *next = piece ? piece->next : NULL;
    if (!next || piece->is_taken || next->is_taken || next->begins_slab)
        return;
    piece->bytes += next->bytes;
    piece->next = next->next;
    free(next);
}

void pinned_give(struct pinned *pinned, uint8_t *at)
{
    struct pinned_piece *before = NULL, *piece = pinned->pieces;
    for (; piece && piece->at != at; piece = piece->next)
        before = piece;
    if (!piece)
        return;
    piece->is_taken = 0;
    join_next(piece);
    join_next(before);
}

int pinned_fits(const struct pinned *pinned, size_t size)
{
    return rounded(size) <= pinned->limit;
}

void pinned_forget(struct pinned *pinned)
{
    for (struct pinned_piece *piece = pinned->pieces, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    pinned->pieces = NULL;
    pinned->bytes = 0;
}
