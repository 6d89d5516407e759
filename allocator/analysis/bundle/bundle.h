/*
 * A bundle: what is on disk of a fault (keep=FOLDER) or of a launch that was saved (save_values=LAUNCHES=FOLDER), a folder of
 * its own for each (docs/replay.md). Its files:
 *
 *     facts.json       what cufence knew (snapshot_json.h)
 *     dump.gz          the core dump of a fault; second-dump.gz: that of its second launch
 *     launch.json      if the launch can be done again: the kernel, its arguments and its buffers, a struct bundle
 *     kernel.cubin     and the code for that; the arrays that launch.json names, *.npy, have the bytes of the buffers
 *
 * and for people README.md, report.txt, finding.json. A bundle may come from a stranger, so every number in launch.json is
 * checked here, and the names of files lead nowhere else.
 *
 * Units: bytes, device addresses. Ownership: bundle_read() makes a bundle that bundle_free() frees; one that is written borrows
 * what it points to. Pure; any thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "base/error.h"
#include "json/json_memory.h"
#include "snapshot.h"

#define BUNDLE_VERSION 1
#define BUNDLE_BUFFERS 4096
#define BUNDLE_THREADS 1024u /* of a block */

#define BUNDLE_LAUNCH "launch.json"
#define BUNDLE_FACTS "facts.json"
#define BUNDLE_DUMP "dump" /* this and the next one with .gz, or without where it could not be packed */
#define BUNDLE_SECOND "second-dump"
#define BUNDLE_IMAGE "kernel.cubin"
#define BUNDLE_README "README.md"
#define BUNDLE_EARLIER "scene.json" /* what earlier versions had instead of launch.json */

struct bundle_buffer {
    uint64_t mapping_start, mapping_end;
    uint64_t id;            /* 0: none is known, and address and size are those of the mapping */
    uint64_t address, size; /* the bytes in the file */
    int is_bounded;         /* the rest of the mapping was slack at the launch: no other buffer's */
    char file[48];          /* with the bytes before the launch; "" if they were left out */
    char reason[64];        /* why they were left out; "" if they were not */
    char label[64];
    char after[48]; /* of a saved launch: the file with the bytes after it; "" if it did not change them */
    char type[16];  /* "float32": what its elements are taken for; "" if unknown */
};

/* A launch with all that it takes to do it again. The rerun process takes this too (rerun/input.h), in memory of ours instead
 * of files: it asks for the bytes of buffers, and needs no list of them. */
struct bundle {
    const char *symbol;                   /* the kernel's mangled name */
    char device_name[128];                /* of the GPU that it ran on, "" if unknown */
    uint32_t compute;                     /* its compute capability, 90 for 9.0 */
    uint64_t arena_start, arena_end;      /* cufence's address space in the process that made the launch */
    const struct rerun_launch *launches;  /* at least one; the launch that faulted, or those that may have, the best first */
    size_t launch_count;                  /* at most BUNDLE_LAUNCHES on disk, RERUN_LAUNCHES for the rerun process */
    int has_outputs;                      /* what the buffers held after the launch is kept; it may have faulted all the same */
    const struct launch_argument *layout; /* of the arguments, in order; NULL if unknown */
    size_t argument_count;
    const struct bundle_buffer *buffers; /* by mapping_start if it was read */
    size_t buffer_count;
    const struct bundle_buffer *pinned; /* host memory, at most RERUN_PINNED blocks, by address */
    size_t pinned_count;
    const struct rerun_variable *variables; /* of the module */
    size_t variable_count;
    struct json_memory memory; /* of one that was read, with the JSON: the kernel's name is in it */
};

extern const struct json_table kept_bundle; /* of launch.json */

/* The buffer, of which no file is named yet. */
struct bundle_buffer bundle_buffer_of(const cufence_buffer *from);
struct bundle_buffer bundle_pinned_of(uint64_t address, uint64_t bytes); /* the same for pinned host memory */

/* Names the file with the buffer's bytes, before the launch or after it. */
void bundle_name_file(struct bundle_buffer *buffer, int is_after);

/* Return malloc'ed text that ends with a newline, or NULL if out of host memory. bundle_readme(): the text of BUNDLE_README,
 * Markdown, with the list of the buffers. */
char *bundle_write(const struct bundle *bundle);
char *bundle_readme(const struct bundle *bundle);

/* Reads the output of bundle_write(). Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY; *out is then NULL. */
cufence_status bundle_read(const char *text, size_t size, struct bundle **out, struct problem *problem);
void bundle_free(struct bundle *bundle); /* NULL is allowed */

/* Whether the pinned memory can be mapped: whole blocks in order, apart from each other and from cufence's address space,
 * within the host's, and not too much of it. */
int bundle_has_sound_pinned(const struct bundle *bundle);

/* Returns the buffer whose mapping contains the address, or the pinned host memory; NULL if there is none. For bundles that
 * were read. */
const struct bundle_buffer *bundle_find(const struct bundle *bundle, uint64_t address);

/* ---- npy.c: the header of NumPy's files of one array, as the buffers of a bundle are:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html ---- */

#define NPY_HEADER 128 /* bytes of the header that npy_write() makes */
#define NPY_MOST 65536 /* bytes that npy_read() may need */

/* Whether NumPy has the type: not bfloat16 and float8, which are written as unsigned integers. */
int npy_has(enum value_type type);

/* Makes the header of an array of `count` elements. */
void npy_write(enum value_type type, uint64_t count, char header[NPY_HEADER]);

/* Reads the header at the start of a file, of which there are `size` bytes, and says where the elements begin, and how many
 * bytes they are. Errors: CORRUPT, UNSUPPORTED (elements that are not plain numbers). */
cufence_status npy_read(const void *start, size_t size, uint64_t *offset, uint64_t *bytes, struct problem *problem);
