/*
 * Where the fields lie that lead from a CPython thread state to its frames and their code objects. Pure data, and pure.
 *
 * Sources: the headers of CPython 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 (offsetof on x86-64; the same on every 64-bit
 * Linux); from 3.13 on, the interpreter describes itself in _PyRuntime (_Py_DebugOffsets). All of these five have been run
 * (tests/python/test_stacks.py); 3.14 follows the published header and has not. Free-threaded builds are refused: there
 * the code of a frame may lie in a copy per thread.
 */
#ifndef CUFENCE_STACKS_PYTHON_LAYOUT_H
#define CUFENCE_STACKS_PYTHON_LAYOUT_H

#include "linetable.h"

#include <stdint.h>

#define NO_FIELD UINT16_MAX

/* Offsets in bytes of what is read of every frame. */
struct python_frame_layout {
    uint16_t frame_previous; /* in a frame */
    uint16_t frame_code;
    uint16_t frame_position; /* index of the instruction (int) up to 3.10, its address from 3.11 on */
    uint16_t frame_owner;    /* who owns the frame (char), NO_FIELD before there were shims */
    uint16_t position_scale; /* bytes that an index counts, 0: the position is an address */
    uint16_t code_version; /* in a code object: a number that no other one gets (uint32_t; 0: they have run out), or NO_FIELD */
    uint16_t code_filename;
    uint16_t code_name; /* the qualified one where there is one */
    uint16_t code_first_line;
    uint16_t code_linetable;
};

struct python_layout {
    struct python_frame_layout frame;
    uint16_t thread_frame;      /* in the thread state: of the frame, or of what holds it */
    uint16_t holder_frame;      /* of the frame in that, or NO_FIELD */
    uint16_t code_bytecode;     /* in a code object; 0 where a position is an index */
    uint16_t text_ascii_data;   /* in a str: of the characters if they are ASCII */
    uint16_t text_unicode_data; /* and if not */
    enum linetable_format format;
};

/* Whoever has these as constants reads a frame in a tenth (3.12) to a quarter (3.10) less time. 3.13 has the frames of 3.12. */
#define PYTHON_FRAME_3_9                                                                                                       \
    {                                                                                                                          \
        .frame_previous = 24, .frame_code = 32, .frame_position = 104, .frame_owner = NO_FIELD, .position_scale = 1,           \
        .code_version = NO_FIELD, .code_filename = 104, .code_name = 112, .code_first_line = 40, .code_linetable = 120         \
    }
#define PYTHON_FRAME_3_10                                                                                                      \
    {                                                                                                                          \
        .frame_previous = 24, .frame_code = 32, .frame_position = 96, .frame_owner = NO_FIELD, .position_scale = 2,            \
        .code_version = NO_FIELD, .code_filename = 104, .code_name = 112, .code_first_line = 40, .code_linetable = 120         \
    }
#define PYTHON_FRAME_3_11                                                                                                      \
    {                                                                                                                          \
        .frame_previous = 48, .frame_code = 32, .frame_position = 56, .frame_owner = NO_FIELD, .code_version = NO_FIELD,       \
        .code_filename = 112, .code_name = 128, .code_first_line = 72, .code_linetable = 136                                   \
    }
#define PYTHON_FRAME_3_12                                                                                                      \
    {                                                                                                                          \
        .frame_previous = 8, .frame_code = 0, .frame_position = 56, .frame_owner = 70, .code_version = 92,                     \
        .code_filename = 112, .code_name = 128, .code_first_line = 68, .code_linetable = 136                                   \
    }

/* `version` as in PY_VERSION_HEX; `runtime` is _PyRuntime, read from 3.13 on. 0 if the version is unknown, or the
 * runtime's description of itself is not what it should be; *out is then undefined. */
int python_layout_for(unsigned long version, const void *runtime, struct python_layout *out);

#endif
