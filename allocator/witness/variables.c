#include "variables.h"

#include "analysis/dump/variables.h"
#include "kernels/kernels.h"

#include <stdlib.h>

#define PATIENCE_MS 20 /* after its dump, driver 580.159 ends a context within 22 to 25 ms */

/* Lays out the values. Returns their number. */
static size_t plan(struct variables_kept *kept, const struct variable *found, size_t count, struct kernels_piece *pieces)
{
    size_t total = 0, planned = 0;
    for (size_t i = 0; i < count; i++)
        total += found[i].size <= RERUN_VARIABLE_BYTES - total ? found[i].size : 0;
    kept->values = malloc(total);
    uint8_t *to = kept->values;
    for (size_t i = 0; to && i < count; i++) {
        if (!found[i].address || found[i].size > total)
            continue;
        pieces[planned++] = (struct kernels_piece){.address = found[i].address, .to = to, .bytes = found[i].size};
        to += found[i].size;
        total -= found[i].size;
    }
    return planned;
}

void variables_keep(struct variables_kept *kept, struct rerun *rerun, struct span relocated, int device)
{
    struct rerun_input *input = &rerun->input;
    struct variable found[VARIABLES_MOST];
    struct kernels_piece pieces[VARIABLES_MOST];
    size_t count = variables_of((struct span){input->image, input->image_bytes}, input->symbol, found);
    variables_locate(relocated, found, count);
    size_t planned = plan(kept, found, count, pieces), at = 0;
    if (planned)
        kernels_read(device, pieces, planned, PATIENCE_MS);
    for (size_t i = 0; i < count; i++) {
        const struct kernels_piece *piece = at < planned && pieces[at].address == found[i].address ? &pieces[at++] : NULL;
        if (piece && piece->is_read && !variables_lead_inside(relocated, piece->to, piece->bytes))
            kept->list[input->variable_count++] =
                (struct rerun_variable){.name = found[i].name, .value = piece->to, .bytes = (uint32_t)piece->bytes};
        else if (found[i].is_used && !(piece && piece->is_read))
            rerun_result_add_unset(&rerun->result, found[i].name);
    }
    input->variables = kept->list;
}
