/*
 * Creates a GPU core dump of a faulting warp, in the format and with the row sizes of driver 580.
 * Pure. Returns a malloc'ed file, or NULL if out of memory.
 */
#ifndef CUFENCE_SIM_DUMP_H
#define CUFENCE_SIM_DUMP_H

#include "fault.h"

unsigned char *dump_create(const struct fault_site *site, size_t *size);

#endif
