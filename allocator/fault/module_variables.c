#include "rerun_source.h"

#include "analysis/dump/coredump.h"
#include "analysis/dump/kernel_module.h"
#include "kernels/kernels.h"
#include "rerun/rerun.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 20 /* after its dump, driver 580.159 ends a context within 22 to 25 ms */

struct variables_kept {
    struct span relocated; /* in the dump */
    struct variable found[VARIABLES_MOST];
    struct kernels_piece pieces[VARIABLES_MOST]; /* `to` is NULL: left out */
    size_t count;
    struct rerun_variable list[RERUN_VARIABLES];
    uint8_t *values;
};

/* Lays out the values, as many as there is room for. */
static int plan(struct variables_kept *kept)
{
    size_t left = RERUN_VARIABLE_BYTES;
    uint8_t *to = kept->values = malloc(left);
    for (size_t i = 0; to && i < kept->count; i++) {
        const struct variable *found = &kept->found[i];
        if (!found->address || found->size > left)
            continue;
        kept->pieces[i] = (struct kernels_piece){.address = found->address, .to = to, .bytes = found->size};
        to += found->size;
        left -= found->size;
    }
    return to != NULL;
}

static const struct evidence_stop *named_stop(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->stop_count; i++)
        if (evidence->stops[i].symbol)
            return &evidence->stops[i];
    return NULL;
}

struct variables_kept *variables_keep(const struct fault *fault)
{
    const struct evidence_stop *stop = named_stop(fault->evidence);
    struct variables_kept *kept = stop && fault->device >= 0 ? calloc(1, sizeof *kept) : NULL;
    if (!kept)
        return NULL;
    kept->relocated = image_relocated(&fault->opened, stop->symbol, stop->error_pc);
    kept->count = variables_of(kept->relocated, stop->symbol, kept->found);
    if (!kept->count || !variables_locate(kept->relocated, kept->found, kept->count) || !plan(kept)) {
        variables_free(kept);
        return NULL;
    }
    kernels_read(fault->device, kept->pieces, kept->count, PATIENCE_MS);
    return kept;
}

/* Returns the value of a variable if it was read and can be set; *is_read: it was. */
static const struct kernels_piece *value_of(const struct variables_kept *kept, const struct variable *variable, int *is_read)
{
    *is_read = 0;
    for (size_t i = 0; kept && i < kept->count; i++) {
        const struct kernels_piece *piece = &kept->pieces[i];
        if (!piece->is_read || strcmp(kept->found[i].name, variable->name) != 0)
            continue;
        *is_read = 1;
        return variables_lead_inside(kept->relocated, piece->to, piece->bytes) ? NULL : piece;
    }
    return NULL;
}

void variables_give(struct variables_kept *kept, struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct variable own[VARIABLES_MOST];
    size_t count = variables_of((struct span){input->image, input->image_bytes}, input->bundle.symbol, own);
    for (size_t i = 0; i < count; i++) {
        int is_read;
        const struct kernels_piece *piece = value_of(kept, &own[i], &is_read);
        if (piece)
            kept->list[input->bundle.variable_count++] =
                (struct rerun_variable){.name = own[i].name, .value = piece->to, .bytes = (uint32_t)piece->bytes};
        else if (own[i].is_used && !is_read)
            rerun_result_add_unset(&rerun->result, own[i].name);
    }
    input->bundle.variables = kept ? kept->list : NULL;
}

void variables_free(struct variables_kept *kept)
{
    if (kept)
        free(kept->values);
    free(kept);
}
