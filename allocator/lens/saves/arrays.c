#include "arrays.h"

#include "analysis/snapshot/npy.h"
#include "base/files.h"
#include "lens/values/told.h"
#include "lens/values/types.h"

#include <inttypes.h>
#include <unistd.h>

enum value_type arrays_type(const struct visit *visit, size_t index)
{
    const struct heap_range *range = &visit->reached[index].range;
    enum value_type found = VALUE_TYPES;
    for (size_t i = 0; i < visit->reached_count; i++) {
        const struct reached *reached = &visit->reached[i];
        struct known_type known = {VALUE_TYPES, TYPE_UNKNOWN};
        if (reached->range.id != range->id)
            continue;
        if (reached->function)
            known = types_of(reached->function, reached);
        size_t width = known.from >= TYPE_SIGNATURE ? value_width(known.type) : 0;
        int fits = width && range->size % width == 0 && (reached->pointer - range->address) % width == 0;
        if (!fits || (found != VALUE_TYPES && found != known.type))
            return VALUE_TYPES;
        found = known.type;
    }
    return found;
}

void arrays_begin(FILE *file, const struct visit *visit)
{
    const struct kernel_names *names = visit->function ? types_names(visit->function) : NULL;
    fprintf(file, "Launch #%" PRIu64 " of %s: its buffers before and after, for numpy.load(). launch.json has the rest.\n\n",
            visit->number, names ? names->demangled : "a kernel");
}

void arrays_describe(FILE *file, const struct visit *visit, size_t index, enum value_type type, int has_changed)
{
    const struct reached *reached = &visit->reached[index];
    const char *name = told_name(reached->handle, reached->function, reached->argument);
    fprintf(file, "%zu.before.npy%s: ", index, has_changed ? " and .after.npy" : " (the launch did not change it)");
    if (reached->argument >= 0)
        fprintf(file, "argument %d%s%s, ", reached->argument, name ? " " : "", name ? name : "");
    fprintf(file, "buffer #%" PRIu64 ", ", reached->range.id);
    if (type == VALUE_TYPES) {
        fprintf(file, "%" PRIu64 " bytes: nothing says of what type. .view(\"float32\") makes an array of it\n",
                reached->range.size);
        return;
    }
    uint64_t count = reached->range.size / value_width(type);
    fprintf(file, "%s[%" PRIu64 "]", value_name(type), count);
    if (npy_has(type))
        fprintf(file, "\n");
    else
        fprintf(file, ", as uint%zu, for NumPy has no such type: torch.from_numpy(array.view(\"int%zu\")).view(torch.%s)\n",
                8 * value_width(type), 8 * value_width(type), value_name(type));
}
