/* A kernel name from a cubin's symbol table, demangled or not: its argument list. The input: the number of arguments, and
 * the name. */
#include "fuzz.h"

#include "analysis/verdict/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t count = data[0] % 16u;
    char *name = text_of(data + 1, size - 1);
    int last = 0;
    for (size_t i = 0; i <= count; i++)
        last = signature_is_const(name, count, i);
    require(!last); /* there is no such argument */
    free(name);
    return 0;
}
