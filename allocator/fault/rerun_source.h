/*
 * Has a faulted kernel launched again (rerun/rerun.h), and gives the rerun process what it needs.
 *
 * The rerun process reserves cufence's address space, so each buffer lies where it did. It asks for the buffers that the
 * kernel's arguments reach, and gets their physical memory as descriptors: that memory outlives the context. The module's code
 * is the one in the core dump, with memory barriers in front of each EXIT, so that the faulting warp cannot have left when the
 * driver looks.
 *
 * Thread safety: one thread at a time for each source; the monitor's.
 */
#pragma once

#include "kernel_fault.h"

struct rerun;
struct rerun_source;
struct variables_kept;

/* Whether explain= asks for a second launch where one tells more. */
int rerun_source_is_wanted(const struct options *options);

/* How many ms after the end of the driver's dump a second launch may take, and what to call that. With explain=auto little if
 * the device was full. */
uint64_t rerun_source_limit(const struct options *options, const struct evidence *evidence, char name[96]);

/* Fills in the device, and cufence's address space. Errors: UNSUPPORTED, also in the result. */
cufence_status rerun_source_device(struct rerun *rerun, int device);

/* Chooses the launches, keeps the memory that their arguments point to, and starts the process. With explain=auto, a read of
 * which the dump tells the address is not launched again: then the diagnosis gets what that is made of, or the memory is to
 * tell it. Returns
 * NULL if nothing is to be done: explain=dump, an exception that is not about memory, or no host memory. fault->saving
 * gets the memory and the image, to keep them. The fault must outlive the source. */
struct rerun_source *rerun_source_begin(const struct options *options, struct fault *fault);

/* Serves the rerun process until it is done, at most until options->rerun_ms after the beginning. The result, and the
 * evidence in it, stay valid until rerun_source_free(). The buffers in it are NULL; rerun_result_name_buffers() fills them in.
 */
struct rerun_result *rerun_source_finish(struct rerun_source *source);

/* What the first launch may have had and a second one cannot have; "" for nothing. alone: a kernel that has nothing of the
 * device heap if it calls no function, although others of its module call malloc(); NULL if it may have got pointers into it.
 * has_pinned: it read pinned host memory that is another one now. has_others: other launches were under way. */
const char *rerun_source_lacks(struct span image, const char *alone, int has_pinned, int has_others);

/* After rerun_source_finish(): finds what the diagnosed address is made of (result.cause). */
void rerun_source_trace(struct rerun_source *source, const struct diagnosis *diagnosis);

/* Returns the kernel with the launch that faulted again, or all that may have. After rerun_source_finish(); valid as long as
 * the source. */
struct bundle rerun_source_bundle(const struct rerun_source *source);

/* Returns the dump of the second fault, NULL if there is none. Valid until rerun_source_free(). source: may be NULL. */
const struct dump *rerun_source_dump(const struct rerun_source *source);

void rerun_source_free(struct rerun_source *source); /* NULL is allowed */

/* ---- module_variables.c: the variables of the module whose kernel has faulted, for its second launch. Thread safety: one
 * thread at a time for each struct variables_kept. ---- */

/* Reads them from the device, as long as the context answers: call it first of all. Takes 20 ms at most. NULL: there are none,
 * or the host is out of memory. The fault must outlive the result. */
struct variables_kept *variables_keep(const struct fault *fault);

/* Enters them in the rerun's input, which has its image and symbol; those that the kernel uses and that could not be read, in
 * its result. kept: NULL: none could. */
void variables_give(struct variables_kept *kept, struct rerun *rerun);

void variables_free(struct variables_kept *kept); /* NULL is allowed */
