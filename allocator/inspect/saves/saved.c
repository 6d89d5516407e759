#include "bundles.h"

#include "analysis/snapshot/bundle.h"
#include "base/files.h"
#include "base/output.h"
#include "inspect/values/types.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int has_failed;

void saved_fail(const char *path)
{
    output_note("save_values: cannot write %s: %s", path, strerror(errno));
    has_failed = 1;
}

int saved_has_failed(void)
{
    return has_failed;
}

static int put(const char *path, const void *first, size_t first_size, const void *bytes, uint64_t size)
{
    int is_ok = files_put(path, first, first_size, bytes, size);
    if (!is_ok)
        saved_fail(path);
    return is_ok;
}

int saved_put_array(const char *path, enum value_type type, const void *bytes, uint64_t size)
{
    char header[NPY_HEADER];
    enum value_type written = type == VALUE_TYPES ? VALUE_UINT8 : type;
    npy_write(written, size / value_width(written), header);
    return put(path, header, sizeof header, bytes, size);
}

int saved_put(const char *path, const void *bytes, size_t size)
{
    return put(path, NULL, 0, bytes, size);
}

enum value_type saved_type(const struct visit *visit, size_t index)
{
    const struct heap_range *range = &visit->reached[index].range;
    enum value_type found = VALUE_TYPES;
    for (size_t i = 0; i < visit->reached_count; i++) {
        const struct reached *reached = &visit->reached[i];
        struct known_type known = {VALUE_WORD, TYPE_UNKNOWN};
        if (reached->range.id != range->id)
            continue;
        if (reached->function)
            known = types_of(reached->function, reached);
        size_t width = known.from == TYPE_SIGNATURE ? value_width(known.type) : 0;
        int fits = width && range->size % width == 0 && (reached->pointer - range->address) % width == 0;
        if (!fits || (found != VALUE_TYPES && found != known.type))
            return VALUE_TYPES;
        found = known.type;
    }
    return found;
}

void saved_begin(FILE *file, const struct visit *visit)
{
    const struct kernel_names *names = visit->function ? types_names(visit->function) : NULL;
    fprintf(file, "Launch #%" PRIu64 " of %s: its buffers before and after, for numpy.load(). launch.json has the rest.\n\n",
            visit->number, names ? names->demangled : "a kernel");
}

void saved_describe(FILE *file, const struct visit *visit, size_t index, enum value_type type, int has_changed)
{
    const struct reached *reached = &visit->reached[index];
    const char *name = declared_name(reached->handle, reached->function, reached->argument);
    fprintf(file, "%zu.before.npy%s: ", index, has_changed ? " and .after.npy" : " (the launch did not change it)");
    if (reached->argument >= 0)
        fprintf(file, "argument %d%s%s, ", reached->argument, name ? " " : "", name ? name : "");
    fprintf(file, "buffer #%" PRIu64 ", ", reached->range.id);
    if (type == VALUE_TYPES) {
        fprintf(file, "%" PRIu64 " bytes: their type is not known. .view(\"float32\") makes an array of it\n",
                reached->range.size);
        return;
    }
    uint64_t count = reached->range.size / value_width(type);
    fprintf(file, "%s[%" PRIu64 "]", value_names[type], count);
    if (npy_has(type))
        fprintf(file, "\n");
    else
        fprintf(file, ", as uint%zu, for NumPy has no such type: torch.from_numpy(array.view(\"int%zu\")).view(torch.%s)\n",
                8 * value_width(type), 8 * value_width(type), value_names[type]);
}
