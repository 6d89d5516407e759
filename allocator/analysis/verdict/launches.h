/*
 * Finds the recorded launch that faulted, the kernel's arguments, and the buffers that its parameter bytes point to.
 * Pure functions on the plain structs of evidence.h, diagnosis.h and snapshot.h; any thread.
 */
#pragma once

#include "diagnosis.h"

/* Returns 1 if the launch may be the faulting one: same kernel, and the same grid, block and arguments as far as the dump
 * has them. Grid and block are not compared if a kernel of cuTile was asked for with one thread and had more. */
int launch_fits(const struct launch_entry *launch, const struct evidence_stop *stop);

/* Returns how many launches of the stop's kernel are possible: the recorded ones, plus one if a recorded graph may have run
 * it. */
size_t launches_of_kernel(const struct fault_memory *memory, const struct evidence_stop *stop);

/*
 * Returns the newest launch that fits. Its certainty is EXACT if no other launch fits, the dump has its dimensions, and no
 * graph was launched since; DERIVED if no other launch fits, or all come from one place; otherwise CANDIDATE. If no kernel
 * launch fits, returns the newest graph launch, which may contain the kernel: CANDIDATE.
 */
struct launch_match launches_match(const struct fault_memory *memory, const struct evidence_stop *stop);

/* Returns the parameter bytes in the dump, otherwise those that the fitting launches agree on; and the layout if a launch
 * has it. */
struct fault_arguments launches_arguments(const struct fault_memory *memory, const struct evidence_stop *stop,
                                          const struct launch_match *origin);

/* Returns the argument that contains an entire 8-byte word of the parameter bytes, -1 if none. *offset is the word's offset
 * in it. */
int launch_argument_of(const struct launch_function *layout, size_t word, uint32_t *offset);

/* Returns 1 if the access may use that 8-byte word of the parameter bytes, according to the kernel's code, as far as it could
 * be analysed. */
int parameter_may_be_used(const struct evidence_stop *stop, size_t index);

/* Returns the buffer that a word points into, or to whose end it points; NULL if none. If several buffers have used the
 * place, returns the one of that time (0: any), then the live one, then the newest. */
const cufence_buffer *word_buffer(const struct fault_memory *memory, uint64_t word, uint64_t time_ns);

/* Have the buffers at an address ready in memory->near; or at every address that evidence names: first and last byte of each
 * access, and pointers in the kernel's parameters. Whoever follows an address calls this first. memory_look() returns whether
 * they were not there. */
int memory_look(const struct fault_memory *memory, uint64_t address);
void memory_meet(const struct fault_memory *memory, const struct evidence *evidence);

/* The same for the words in a launch's arguments. */
void memory_look_at_words(const struct fault_memory *memory, const uint8_t *bytes, size_t count);

/* ---- boxes.c: where copies by tensor maps leave the memory: a stop's box, and the map among the kernel's arguments, give an
 * address. ---- */

/* Sets the lane's address and the bytes of the access of each stop that has a box, if exactly one map explains the fault: to
 * the first row of the box that has a byte outside of the map's buffer; of a freed buffer, to the first row. */
void boxes_place(struct evidence *evidence, const struct fault_memory *memory);

/* Finds the next map that the word at byte `at` of the parameters begins or points to, after `*i` maps were looked at. Returns
 * NULL if there is none. */
const struct tensor_map *boxes_map(const struct fault_memory *memory, const uint8_t *bytes, size_t count, size_t at, size_t *i);

/* Whether it is by this map that the box leaves the memory, at the address. */
int boxes_lead(const struct tensor_map *map, const struct evidence_box *box, const struct fault_memory *memory,
               uint64_t address);

/* Whether the buffer that the map was made for has been freed since. */
int map_is_freed(const struct tensor_map *map, const struct fault_memory *memory);
