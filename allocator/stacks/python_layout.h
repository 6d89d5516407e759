/*
 * Offsets of the fields that lead from a CPython thread state to its frames and their code objects. Pure data and pure
 * functions.
 *
 * Sources: the headers of CPython 3.10.13, 3.11.7, 3.12.1 and 3.13.0 (offsetof on x86-64; the same on every 64-bit
 * Linux). From 3.13 on, the interpreter describes itself in _PyRuntime (_Py_DebugOffsets). Tested with these (test_stacks.py)
 * and with 3.14.10 and 3.15.2, also debug builds and with the JIT compiler turned on. Of free-threaded builds, 3.13.15 was
 * tested; 3.14 and 3.15 follow the published headers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum linetable_format {
    LINETABLE_RANGES,    /* 3.10: co_linetable */
    LINETABLE_LOCATIONS, /* 3.11 on: co_linetable */
};

#define PYTHON_VERSIONS "CPython 3.10 to 3.15" /* in messages */
#define NO_FIELD UINT16_MAX

/* Byte offsets of the fields read in every frame. */
struct python_frame_layout {
    uint16_t head;           /* bytes of what every object begins with; its last word is the type */
    uint16_t frame_previous; /* in a frame */
    uint16_t frame_code;
    uint16_t frame_position; /* index of the instruction (int) in 3.10, its address from 3.11 on */
    uint16_t frame_owner;    /* owner of the frame (char); NO_FIELD in versions without shims */
    uint16_t position_scale; /* bytes per index; 0: the position is an address */
    uint16_t code_version;   /* in a code object: its unique version (uint32_t; 0: none left), or NO_FIELD */
    uint16_t code_filename;
    uint16_t code_name; /* the qualified name where there is one */
    uint16_t code_first_line;
    uint16_t code_linetable;
};

struct python_layout {
    struct python_frame_layout frame;
    uint16_t thread_frame;      /* in the thread state: the frame, or the struct that holds it */
    uint16_t holder_frame;      /* in that struct: the frame; or NO_FIELD */
    uint16_t code_bytecode;     /* in a code object; 0 if positions are indices */
    uint16_t code_copies;       /* in a code object: the array of the threads' own copies of the bytecode; 0: there are none */
    uint16_t text_ascii_data;   /* in a str: the characters, if ASCII */
    uint16_t text_unicode_data; /* and otherwise */
    enum linetable_format format;
};

/* As compile-time constants, these make reading a frame faster: by a tenth (3.12) to a quarter (3.10). 3.13 has the frames of
 * 3.12, and 3.15 those of 3.14. */
#define PYTHON_FRAME_3_10                                                                                                      \
    {                                                                                                                          \
        .head = 16, .frame_previous = 24, .frame_code = 32, .frame_position = 96, .frame_owner = NO_FIELD,                     \
        .position_scale = 2, .code_version = NO_FIELD, .code_filename = 104, .code_name = 112, .code_first_line = 40,          \
        .code_linetable = 120                                                                                                  \
    }
#define PYTHON_FRAME_3_11                                                                                                      \
    {                                                                                                                          \
        .head = 16, .frame_previous = 48, .frame_code = 32, .frame_position = 56, .frame_owner = NO_FIELD,                     \
        .code_version = NO_FIELD, .code_filename = 112, .code_name = 128, .code_first_line = 72, .code_linetable = 136         \
    }
#define PYTHON_FRAME_3_12                                                                                                      \
    {                                                                                                                          \
        .head = 16, .frame_previous = 8, .frame_code = 0, .frame_position = 56, .frame_owner = 70, .code_version = 92,         \
        .code_filename = 112, .code_name = 128, .code_first_line = 68, .code_linetable = 136                                   \
    }
#define PYTHON_FRAME_3_14                                                                                                      \
    {                                                                                                                          \
        .head = 16, .frame_previous = 8, .frame_code = 0, .frame_position = 56, .frame_owner = 74, .code_version = 92,         \
        .code_filename = 112, .code_name = 128, .code_first_line = 68, .code_linetable = 136                                   \
    }

/* Gets the layout of `version` (as in PY_VERSION_HEX). `runtime` is _PyRuntime, read from 3.13 on. Returns 0, with *out
 * undefined, if the version is unknown or the runtime's description of itself makes no sense. */
int python_layout_for(unsigned long version, const void *runtime, struct python_layout *out);

/* ---- python_proof.c: checks that an interpreter's frames match the layout. Walks them once with reads that may fail, before
 * any walk whose reads may not. So a build with different structs (a patched or debug interpreter that reports a known version)
 * is detected here and not by a crash. Any thread, for its own thread state. ---- */

struct python_types {
    const void *code, *str, *bytes;
};

enum python_proof {
    PYTHON_IS_OTHERWISE = -1,
    PYTHON_IS_UNPROVEN = 0, /* no frame of the program's code to check against */
    PYTHON_IS_PROVEN = 1,   /* also if the system forbids such reads (seccomp) */
};

/* Takes about 50 microseconds. */
enum python_proof python_prove(const struct python_layout *layout, const struct python_types *types, const void *thread_state);

/* Reads this process's memory. Returns whether it could: a read of what is not mapped fails (errno: EFAULT), as does one that
 * the system forbids (another errno). */
int python_read(uint64_t address, void *out, size_t size);

/* ---- linetable.c: the source line of a bytecode instruction, from the line table of its code object. Pure. A truncated or
 * malformed table gives no line, and is never read out of bounds. Sources: Objects/lnotab_notes.txt in CPython 3.10,
 * InternalDocs/code_objects.md (formerly Objects/locations.md) from 3.11 on. ---- */

/* `position` is a byte offset into the bytecode; a negative one, before the first instruction, gives the first line. Returns 0
 * if the table has no line for it. */
int linetable_line(enum linetable_format format, const unsigned char *table, size_t size, int first_line, int position);
