/*
 * The library that the program is linked with: empty functions under the driver's names and soname, as the toolkit's
 * stubs/libcuda.so has them. It is never loaded.
 */
#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
#define X(name)                                                                                                                \
    __attribute__((visibility("default"))) void stub_##name(void) __asm__(TEXT(name));                                         \
    void stub_##name(void)                                                                                                     \
    {                                                                                                                          \
    }
#include "driver_functions.h"
