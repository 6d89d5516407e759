/* What is live, by place of allocation; off the fast path. */
#include "heap/block/index.h"

#include "finding/frames.h"
#include "finding/parts.h"
#include "stacks/stack.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* The key: no padding between its members. */
struct key {
    uint64_t label; /* as in struct facts: the text's address, and the stack */
    uint64_t device;
};

struct row {
    UT_hash_handle hh;
    struct key key;
    struct heap_use use;
};

struct gathering {
    struct row *rows;
    int device;
};

static struct row *row_of(struct gathering *gathering, const struct key *key)
{
    struct row *row;
    HASH_FIND(hh, gathering->rows, key, sizeof *key, row);
    if (row || (row = calloc(1, sizeof *row)) == NULL)
        return row;
    row->key = *key;
    HASH_ADD(hh, gathering->rows, key, sizeof row->key, row);
    return HASH_KEPT(row);
}

static int gather(struct slot *slot, void *user)
{
    struct gathering *gathering = user;
    struct block *block = (struct block *)slot;
    struct facts facts = facts_read(block);
    if (!facts.id || facts.freed_ns || !slot->is_mapped || (gathering->device >= 0 && slot->device != gathering->device) ||
        block_is_returned_now(block))
        return 0;
    const struct key key = {facts.label, (uint64_t)slot->device};
    struct row *row = row_of(gathering, &key);
    if (!row)
        return 0;
    struct heap_use *use = &row->use;
    use->buffers++;
    use->bytes += facts.size;
    use->mapped_bytes += slot->mapped;
    if (facts.size > use->largest.size)
        facts_describe(&facts, slot, slot->base, &use->largest);
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct heap_use *left = a, *right = b;
    if (left->mapped_bytes != right->mapped_bytes)
        return left->mapped_bytes < right->mapped_bytes ? 1 : -1;
    return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

size_t heap_use(int device, struct heap_use **out)
{
    struct gathering gathering = {.device = device};
    struct row *row, *next;
    size_t count = 0;
    blocks_each(gather, &gathering);
    *out = calloc(HASH_COUNT(gathering.rows) + 1, sizeof **out);
    HASH_ITER(hh, gathering.rows, row, next)
    {
        if (*out)
            (*out)[count++] = row->use;
        HASH_DEL(gathering.rows, row);
        free(row);
    }
    if (*out)
        qsort(*out, count, sizeof **out, by_bytes);
    return count;
}

#define FILE_SHOWN 36 /* columns of a file's name; its end tells more than its beginning */

static const char *end_of(const char *file)
{
    size_t length = strlen(file);
    const char *end = length > FILE_SHOWN ? file + length - FILE_SHOWN : file;
    const char *slash = end > file && end[-1] != '/' ? strchr(end, '/') : NULL; /* a whole folder's name, or none */
    return slash ? slash + 1 : end;
}

void heap_use_name(const struct heap_use *use, char *out, size_t size)
{
    struct stack_frame frames[STACK_READ];
    size_t count = stack_interned_frames(use->largest.allocated_stack, frames, STACK_READ);
    const struct stack_frame *frame = count ? frames_own(frames, count) : NULL;
    const char *file = frame ? end_of(frames_file(frame)) : "";
    char function[sizeof frame->function] = "";
    out[0] = '\0';
    if (file[0] && frame->line)
        part_append(out, size, "%s:%d in ", file, frame->line);
    else if (file[0])
        part_append(out, size, "%s in ", file);
    if (frame) {
        frames_function(frame, function, sizeof function);
        part_append(out, size, "%s", function[0] ? function : frame->module);
    }
    if (use->largest.label[0])
        part_append(out, size, "%slabel \"%s\"", frame ? ", " : "", use->largest.label);
    if (!out[0])
        part_append(out, size, "an unknown place");
    text_make_plain(out);
}
