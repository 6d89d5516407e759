#include "flight.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define SLAB (UINT64_C(4) << 20) /* a larger piece gets a slab of its own size */
#define STEP 64u

/* Its first STEP bytes hold a pointer to this, for results_give(). */
struct results_piece {
    struct results_piece *prev, *next; /* by slab and address */
    uint8_t *at;
    size_t bytes;
    int is_taken, begins_slab;
};

/* With those first bytes. */
static size_t rounded(size_t size)
{
    return STEP + (size + STEP - 1) / STEP * STEP;
}

/* Cuts what is left of a free piece off. Without host memory for that, the piece stays as large as it is. */
static void cut(struct results *results, struct results_piece *piece, size_t size)
{
    struct results_piece *rest = piece->bytes > size ? malloc(sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = (struct results_piece){.at = piece->at + size, .bytes = piece->bytes - size};
    piece->bytes = size;
    DL_APPEND_ELEM(results->pieces, piece, rest);
}

/* Pieces are given back about in the order in which they were taken, so what is free lies behind the latest one. */
static struct results_piece *find(struct results *results, size_t size)
{
    struct results_piece *start = results->rover ? results->rover : results->pieces, *piece = start;
    if (!start || results->free < size)
        return NULL;
    do {
        if (!piece->is_taken && piece->bytes >= size)
            return piece;
        piece = piece->next ? piece->next : results->pieces;
    } while (piece != start);
    return NULL;
}

static struct results_piece *add_slab(struct results *results, size_t size)
{
    size_t bytes = size > SLAB ? size : SLAB, left = results->limit - results->bytes;
    void *at = NULL;
    if (bytes > left)
        bytes = left;
    struct results_piece *piece = size <= left ? malloc(sizeof *piece) : NULL;
    if (!piece || driver->cuMemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) {
        free(piece);
        return NULL;
    }
    *piece = (struct results_piece){.at = at, .bytes = bytes, .begins_slab = 1};
    DL_PREPEND(results->pieces, piece);
    results->bytes += bytes;
    results->free += bytes;
    return piece;
}

uint8_t *results_take(struct results *results, size_t size)
{
    size = rounded(size);
    struct results_piece *piece = find(results, size);
    if (!piece)
        piece = add_slab(results, size);
    if (!piece)
        return NULL;
    cut(results, piece, size);
    piece->is_taken = 1;
    results->free -= piece->bytes;
    results->rover = piece->next;
    memcpy(piece->at, &piece, sizeof piece);
    return memset(piece->at + STEP, 0, size - STEP);
}

static void join_next(struct results *results, struct results_piece *piece)
{
    struct results_piece *next = piece->next;
    if (!next || piece->is_taken || next->is_taken || next->begins_slab)
        return;
    piece->bytes += next->bytes;
    DL_DELETE(results->pieces, next);
    if (results->rover == next)
        results->rover = piece;
    free(next);
}

void results_give(struct results *results, uint8_t *memory)
{
    struct results_piece *piece;
    memcpy(&piece, memory - STEP, sizeof piece);
    piece->is_taken = 0;
    results->free += piece->bytes;
    join_next(results, piece);
    join_next(results, piece->prev); /* of the first one it is the last, which has no next one */
}

int results_fits(const struct results *results, size_t size)
{
    return rounded(size) <= results->limit;
}

void results_forget(struct results *results)
{
    struct results_piece *piece, *next;
    DL_FOREACH_SAFE(results->pieces, piece, next)
    free(piece);
    results->pieces = results->rover = NULL;
    results->bytes = results->free = 0;
}
