/* What compute-sanitizer, or a program under it, prints. */
#include "fuzz.h"

#include "cli/sanitizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sanitizer_output output;
    sanitizer_read((const char *)data, size, &output);
    require(output.count <= SANITIZER_ERRORS && output.count <= output.read);
    for (size_t i = 0; i < output.count; i++) {
        const struct sanitizer_error *error = &output.errors[i];
        require(strlen(error->text) && !strpbrk(error->text, "\n\033") && error->times && error->line >= 0);
        require(error->offset != UINT64_MAX || error->file[0]);
    }
    return 0;
}
