#include "python_layout.h"

#include <stddef.h>
#include <string.h>

/* The members of struct python_layout in their order: frame, thread_frame, holder_frame, code_bytecode, code_copies,
 * text_ascii_data, text_unicode_data, format. */
static const struct {
    unsigned long version; /* major << 8 | minor */
    struct python_layout layout;
} known[] = {
    {0x30a, {PYTHON_FRAME_3_10, 24, NO_FIELD, 0, 0, 48, 72, LINETABLE_RANGES}},
    {0x30b, {PYTHON_FRAME_3_11, 56, 8, 184, 0, 48, 72, LINETABLE_LOCATIONS}},
    {0x30c, {PYTHON_FRAME_3_12, 56, 0, 192, 0, 40, 56, LINETABLE_LOCATIONS}},
};

/* _Py_DebugOffsets, with which the interpreter describes itself from 3.13 on, consists of groups, each beginning with the size
 * of the struct it describes. The part that is read is the same in these versions, but for where the groups begin. */
static const struct groups {
    unsigned long version;
    uint16_t thread, frame, code, object; /* in words */
    uint16_t copies;                      /* in the group of the code object: the word for code_copies; 0: none */
} groups[] = {
    {0x30d, 19, 28, 34, 44, 0},
    {0x30e, 22, 31, 39, 50, 10},
    {0x30f, 22, 39, 47, 58, 10},
};

static int read_offset(const uint64_t *words, unsigned at, uint16_t *out)
{
    *out = (uint16_t)words[at];
    return words[at] < 4096;
}

static int describe_itself(const struct groups *group, unsigned long version, const uint64_t *words, struct python_layout *out)
{
    const uint64_t *thread = words + group->thread, *frame = words + group->frame, *code = words + group->code;
    const uint64_t *object = words + group->object;
    enum { HEADER_VERSION = 1, HEADER_FREE_THREADED = 2 };
    int is_free_threaded = words[HEADER_FREE_THREADED] != 0;
    uint16_t head = is_free_threaded ? 32 : 16; /* PyObject */
    uint16_t local_names; /* the field after the version; the interpreter does not describe the version itself */
    *out = (struct python_layout){.frame.head = head, .holder_frame = NO_FIELD, .format = LINETABLE_LOCATIONS};
    out->text_ascii_data = (uint16_t)(head + 24);   /* length, hash, form */
    out->text_unicode_data = (uint16_t)(head + 40); /* and the length and address of its UTF-8 */
    int is_good = memcmp(words, "xdebugpy", 8) == 0 && words[HEADER_VERSION] == version && object[0] == head &&
                  object[1] == head - sizeof(uint64_t) && /* the type */
                  read_offset(thread, 4, &out->thread_frame) && read_offset(frame, 1, &out->frame.frame_previous) &&
                  read_offset(frame, 2, &out->frame.frame_code) && read_offset(frame, 3, &out->frame.frame_position) &&
                  read_offset(frame, 5, &out->frame.frame_owner) && read_offset(code, 1, &out->frame.code_filename) &&
                  read_offset(code, 3, &out->frame.code_name) && read_offset(code, 4, &out->frame.code_linetable) &&
                  read_offset(code, 5, &out->frame.code_first_line) && read_offset(code, 7, &local_names) &&
                  read_offset(code, 9, &out->code_bytecode) && local_names >= sizeof(uint32_t) &&
                  (!is_free_threaded || !group->copies || read_offset(code, group->copies, &out->code_copies));
    if (is_good)
        out->frame.code_version = (uint16_t)(local_names - sizeof(uint32_t));
    return is_good;
}

int python_layout_for(unsigned long version, const void *runtime, struct python_layout *out)
{
    unsigned long minor = version >> 16;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].version == minor) {
            *out = known[i].layout;
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (groups[i].version == minor)
            return runtime && describe_itself(&groups[i], version, runtime, out);
    }
    return 0;
}
