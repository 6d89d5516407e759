/*
 * One page of device memory that is mapped many times, far out in the guards, beyond the pages that have a pattern of their
 * own: a launch that goes further than these does not fault there. What is written in one place is written in all.
 *
 * Units: bytes, device addresses. Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_FAR_H
#define CUFENCE_RERUN_FAR_H

#include <cufence.h>
#include <stddef.h>
#include <stdint.h>

#define FAR_PAGE ((uint64_t)2 << 20)

/* Fills addresses that are reserved, between multiples of FAR_PAGE. Without room for it nothing is there, which is no error. */
void far_add(int device, uint64_t start, uint64_t end);

/* Whether something is filled. */
int far_is_there(void);

/* Gives the page its bytes; FAR_PAGE of them. Errors: DRIVER. */
cufence_status far_write(const uint8_t *bytes);

/* Reads the page. Returns 0 if there is none, or if it cannot be read. */
int far_read(uint8_t *bytes);

/* Errors: DRIVER. */
cufence_status far_remove(void);

#endif
