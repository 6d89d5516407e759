/*
 * The library that linked programs are linked with: empty functions under the driver's names and soname, as the toolkit's
 * stubs/libcuda.so has them. It is never loaded. Compiled twice, for both kinds of default stream; a name that both have is
 * weak, and there twice.
 */
#include "driver.h"

#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
#define X(name)                                                                                                                \
    __attribute__((visibility("default"), weak)) void stub_##name(void) __asm__(TEXT(name));                                   \
    void stub_##name(void)                                                                                                     \
    {                                                                                                                          \
    }
#include "driver_functions.h"
