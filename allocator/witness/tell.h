/*
 * Makes reports and has them delivered and saved.
 *
 * Thread safety: any thread, after tell_open().
 */
#ifndef CUFENCE_WITNESS_TELL_H
#define CUFENCE_WITNESS_TELL_H

#include "finding/misuse.h"
#include "intake.h"
#include "surroundings.h"

#include "base/options.h"

/* `sources` must outlive the reports. May be called again. Errors: OPTION, OVERFLOW (file names). */
cufence_status tell_open(const struct options *options, const struct fault_sources *sources);

/* Report a fault, and a fault whose dump of `size` bytes could not be read. Both return the time when the report was made,
 * by dump_clock(). */
uint64_t tell_fault(const struct dump *dump, const struct evidence *evidence, int device);
uint64_t tell_unexplained(size_t size, const char *why);

/* Reports a misuse by the host. */
void tell_misuse(const struct misuse *misuse);

#endif
