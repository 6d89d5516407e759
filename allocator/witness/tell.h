/*
 * Makes the reports, and sees to it that they are delivered and kept.
 *
 * Thread safety: any thread, after tell_open().
 */
#ifndef CUFENCE_WITNESS_TELL_H
#define CUFENCE_WITNESS_TELL_H

#include "finding/misuse.h"
#include "intake.h"
#include "surroundings.h"

#include "base/options.h"

/* Errors: OPTION, OVERFLOW (names of files). `sources` must stay. May be called again. */
cufence_status tell_open(const struct options *options, const struct fault_sources *sources);

/* Of a fault, and of one whose dump of `size` bytes could not be read. Both return when the report was made, by dump_clock().
 */
uint64_t tell_fault(const struct dump *dump, const struct evidence *evidence, int device);
uint64_t tell_unexplained(size_t size, const char *why);

/* Of a call on the host. */
void tell_misuse(const struct misuse *misuse);

#endif
