/*
 * Where the fields lie that lead from a CPython thread state to its frames and their code objects. Pure.
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

/* Offsets in bytes. */
struct python_layout {
    uint16_t thread_frame;   /* in the thread state: of the frame, or of what holds it */
    uint16_t holder_frame;   /* of the frame in that, or NO_FIELD */
    uint16_t frame_previous; /* in a frame */
    uint16_t frame_code;
    uint16_t frame_position; /* index of the instruction (int) up to 3.10, its address from 3.11 on */
    uint16_t frame_owner;    /* who owns the frame (char), NO_FIELD before there were shims */
    uint16_t code_filename;  /* in a code object */
    uint16_t code_name;      /* the qualified one where there is one */
    uint16_t code_first_line;
    uint16_t code_linetable;
    uint16_t code_bytecode;     /* NO_FIELD: the position is an index */
    uint16_t position_scale;    /* bytes that an index counts */
    uint16_t text_ascii_data;   /* in a str: of the characters if they are ASCII */
    uint16_t text_unicode_data; /* and if not */
    enum linetable_format format;
};

/* `version` as in PY_VERSION_HEX; `runtime` is _PyRuntime, read from 3.13 on. 0 if the version is unknown, or the
 * runtime's description of itself is not what it should be; *out is then undefined. */
int python_layout_for(unsigned long version, const void *runtime, struct python_layout *out);

#endif
