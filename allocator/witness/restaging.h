/*
 * Has a faulted kernel launched again by another process (the stage, see restage/stage.h), on copies of the memory as the fault
 * left it, and collects what is seen there.
 *
 * The stage reserves cufence's address space, so each buffer lies where it did. It asks for the buffers that the kernel's
 * arguments reach, and gets their physical memory as descriptors: that memory outlives the context. The module's code is the
 * one in the core dump, with memory barriers in front of each EXIT, so that the faulting warp cannot have left when the driver
 * looks.
 *
 * Thread safety: one thread at a time for each restaging; the monitor's.
 */
#ifndef CUFENCE_WITNESS_RESTAGING_H
#define CUFENCE_WITNESS_RESTAGING_H

#include "analysis/verdict/restaged.h"
#include "base/options.h"
#include "intake.h"
#include "saving.h"
#include "surroundings.h"

struct restaging;

/* Chooses the launches, keeps the memory that their arguments point to, and starts the process. Returns NULL if nothing is to
 * be staged: explain=dump, an exception that is not about memory, with explain=auto a read of which the dump tells everything,
 * or no host memory. `saving` gets the memory and the image, to keep them; it may be NULL. It, `evidence` and `around` must
 * outlive the restaging. */
struct restaging *restaging_begin(const struct fault_sources *sources, const struct options *options, const struct dump *dump,
                                  const struct evidence *evidence, const struct surroundings *around, struct saving *saving);

/* Serves the stage until it is done, at most until options->witness_ms after the beginning. The result, and the evidence in it,
 * stay valid until restaging_free(). The buffers in it are NULL; restaging_name_buffers() fills them in. */
struct restaged *restaging_finish(struct restaging *restaging);

/* Fills in the kernel's name, the address space, and the launches: the one that faulted again, or all. After
 * restaging_finish(); valid as long as the restaging. */
void restaging_describe(const struct restaging *restaging, struct bundle *bundle);

/* Returns the dump of the second fault, NULL if there is none. Valid until restaging_free(). restaging: may be NULL. */
const struct dump *restaging_dump(const struct restaging *restaging);

void restaging_free(struct restaging *restaging); /* NULL is allowed */

#endif
