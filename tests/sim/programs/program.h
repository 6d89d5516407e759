/* What the stories of a program share. A story prints what the driver answers, and returns the program's exit status. */
#ifndef PROGRAMS_PROGRAM_H
#define PROGRAMS_PROGRAM_H

#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints "what: CUDA_..."; returns the result. */
CUresult say(const char *what, CUresult result);

/* Ends the program with status 2 and a message unless the call succeeds. */
#define MUST(call) must(#call, call)
void must(const char *what, CUresult result);

int is_guarded(void); /* by the preload library */

/* Starts CUDA on device 0, and loads the kernels. */
void start(void);
void use_device(int device);

/* Kernels. store: 4 bytes, `value` to `address`; add_one: to each of `count` numbers. */
CUresult store(CUdeviceptr address, uint32_t value, CUstream stream);
CUresult store_together(CUdeviceptr address, uint32_t value, CUstream stream);   /* a cooperative launch, 64 bytes shared */
CUresult store_configured(CUdeviceptr address, uint32_t value, CUstream stream); /* the same with attributes, in clusters */
CUresult add_one(CUdeviceptr numbers, uint32_t count, CUstream stream);

/* Keeps the stream busy until let_go(), at most for the 10 s of cusim_spin. */
void spin(uint32_t *flag, CUstream stream);
void let_go(uint32_t *flag);

#define STORIES(X)                                                                                                             \
    X(capture_at_end)                                                                                                          \
    X(allocations)                                                                                                             \
    X(alignment)                                                                                                               \
    X(overrun)                                                                                                                 \
    X(beyond)                                                                                                                  \
    X(statistics)                                                                                                              \
    X(memory_info)                                                                                                             \
    X(ranges)                                                                                                                  \
    X(foreign)                                                                                                                 \
    X(double_free)                                                                                                             \
    X(own_pool)                                                                                                                \
    X(small_ones)                                                                                                              \
    X(capture)                                                                                                                 \
    X(graph_memory)                                                                                                            \
    X(graph_nodes)                                                                                                             \
    X(reset)                                                                                                                   \
    X(two_devices)                                                                                                             \
    X(peers)                                                                                                                   \
    X(ipc)                                                                                                                     \
    X(fork_first)                                                                                                              \
    X(fork_while_freeing)                                                                                                      \
    X(untouched)                                                                                                               \
    X(exec_child)                                                                                                              \
    X(threads)                                                                                                                 \
    X(idle)                                                                                                                    \
    X(beside)                                                                                                                  \
    X(out_of_bounds)                                                                                                           \
    X(itself)                                                                                                                  \
    X(exit_handlers)                                                                                                           \
    X(newer_forms)                                                                                                             \
    X(next_symbol)                                                                                                             \
    X(ways_to_launch)                                                                                                          \
    X(end_at_once)                                                                                                             \
    X(after_fault)                                                                                                             \
    X(other_exception)                                                                                                         \
    X(several_bugs)                                                                                                            \
    X(use_after_free)                                                                                                          \
    X(foreign_stream)                                                                                                          \
    X(foreign_explicit)                                                                                                        \
    X(foreign_kernel)                                                                                                          \
    X(thread_id)                                                                                                               \
    X(short_of_space)                                                                                                          \
    X(pool_steps)                                                                                                              \
    X(pool_device)                                                                                                             \
    X(high_mark)                                                                                                               \
    X(reordered)                                                                                                               \
    X(prepared)                                                                                                                \
    X(uneven_end)                                                                                                              \
    X(host_copies)                                                                                                             \
    X(freed)                                                                                                                   \
    X(order)                                                                                                                   \
    X(into_graph)                                                                                                              \
    X(release)                                                                                                                 \
    X(green)                                                                                                                   \
    X(resets)                                                                                                                  \
    X(ending_contexts)                                                                                                         \
    X(many_contexts)                                                                                                           \
    X(silent_fault)                                                                                                            \
    X(many_streams)                                                                                                            \
    X(many_threads)                                                                                                            \
    X(unmarked)                                                                                                                \
    X(tail)                                                                                                                    \
    X(fork_while)                                                                                                              \
    X(little_memory)                                                                                                           \
    X(call_counts)                                                                                                             \
    X(traced)                                                                                                                  \
    X(busy_end)                                                                                                                \
    X(seen)                                                                                                                    \
    X(main_leaves)                                                                                                             \
    X(fibres)                                                                                                                  \
    X(abort_in_handler)                                                                                                        \
    X(cancelled)                                                                                                               \
    X(small_threads)                                                                                                           \
    X(out_of_memory)

#define DECLARE(name) int story_##name(int count, char **arguments);
STORIES(DECLARE)
#undef DECLARE

#endif
