#include "pinned.h"

#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define SLAB (UINT64_C(4) << 20) /* a larger piece gets a slab of its own size */
#define STEP 64u

/* Its first STEP bytes hold a pointer to this, for pinned_give(). */
struct pinned_piece {
    struct pinned_piece *previous, *next;
    uint8_t *at;
    size_t bytes;
    int is_taken, begins_slab;
};

/* With those first bytes. */
static size_t rounded(size_t size)
{
    return STEP + (size + STEP - 1) / STEP * STEP;
}

/* NULL as `piece`: to the front of the list. */
static void insert_behind(struct pinned *pinned, struct pinned_piece *piece, struct pinned_piece *added)
{
    added->previous = piece;
    added->next = piece ? piece->next : pinned->pieces;
    *(piece ? &piece->next : &pinned->pieces) = added;
    if (added->next)
        added->next->previous = added;
}

/* Cuts what is left of a free piece off. Without host memory for that, the piece stays as large as it is. */
static void cut(struct pinned *pinned, struct pinned_piece *piece, size_t size)
{
    struct pinned_piece *rest = piece->bytes > size ? malloc(sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = (struct pinned_piece){.at = piece->at + size, .bytes = piece->bytes - size};
    piece->bytes = size;
    insert_behind(pinned, piece, rest);
}

/* Pieces are given back about in the order in which they were taken, so what is free lies behind the latest one. */
static struct pinned_piece *find(struct pinned *pinned, size_t size)
{
    if (pinned->free < size)
        return NULL;
    struct pinned_piece *start = pinned->rover ? pinned->rover : pinned->pieces;
    for (struct pinned_piece *piece = start; piece; piece = piece->next) {
        if (!piece->is_taken && piece->bytes >= size)
            return piece;
    }
    for (struct pinned_piece *piece = pinned->pieces; piece != start; piece = piece->next) {
        if (!piece->is_taken && piece->bytes >= size)
            return piece;
    }
    return NULL;
}

static struct pinned_piece *add_slab(struct pinned *pinned, size_t size)
{
    size_t bytes = size > SLAB ? size : SLAB, left = pinned->limit - pinned->bytes;
    void *at = NULL;
    if (bytes > left)
        bytes = left;
    struct pinned_piece *piece = size <= left ? malloc(sizeof *piece) : NULL;
    if (!piece || driver->cuMemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) {
        free(piece);
        return NULL;
    }
    *piece = (struct pinned_piece){.at = at, .bytes = bytes, .begins_slab = 1};
    insert_behind(pinned, NULL, piece);
    pinned->bytes += bytes;
    pinned->free += bytes;
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
    cut(pinned, piece, size);
    piece->is_taken = 1;
    pinned->free -= piece->bytes;
    pinned->rover = piece->next;
    memcpy(piece->at, &piece, sizeof piece);
    return memset(piece->at + STEP, 0, size - STEP);
}

static void join_next(struct pinned *pinned, struct pinned_piece *piece)
{
    struct pinned_piece *next = piece ? piece->next : NULL;
    if (!next || piece->is_taken || next->is_taken || next->begins_slab)
        return;
    piece->bytes += next->bytes;
    piece->next = next->next;
    if (next->next)
        next->next->previous = piece;
    if (pinned->rover == next)
        pinned->rover = piece;
    free(next);
}

void pinned_give(struct pinned *pinned, uint8_t *memory)
{
    struct pinned_piece *piece;
    memcpy(&piece, memory - STEP, sizeof piece);
    piece->is_taken = 0;
    pinned->free += piece->bytes;
    join_next(pinned, piece);
    join_next(pinned, piece->previous);
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
    pinned->pieces = pinned->rover = NULL;
    pinned->bytes = pinned->free = 0;
}
