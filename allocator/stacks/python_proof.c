#include "python_layout.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES 64

/* State of one check. */
struct proof {
    const struct python_layout *layout;
    const struct python_types *types;
    int error; /* EFAULT: something is not mapped, or not an object of the expected type; else reads are not allowed */
};

int python_read(uint64_t address, void *out, size_t size)
{
    struct iovec to = {out, size}, from = {(void *)(uintptr_t)address, size};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size;
}

static uint64_t load(struct proof *proof, uint64_t object, uint64_t offset, size_t size)
{
    uint64_t value = 0;
    if (!proof->error && !python_read(object + offset, &value, size))
        proof->error = errno;
    return value;
}

static uint64_t load_word(struct proof *proof, uint64_t object, uint64_t offset)
{
    return load(proof, object, offset, sizeof(uint64_t));
}

static uint64_t load_type(struct proof *proof, uint64_t object)
{
    return load_word(proof, object, proof->layout->frame.head - sizeof(uint64_t));
}

/* Reads the object that a field points to. It must be of that type. */
static uint64_t load_object(struct proof *proof, uint64_t holder, uint64_t offset, const void *type)
{
    uint64_t object = load_word(proof, holder, offset);
    if (load_type(proof, object) != (uint64_t)(uintptr_t)type && !proof->error)
        proof->error = EFAULT;
    return object;
}

static void prove_code(struct proof *proof, uint64_t code)
{
    const struct python_frame_layout *frame = &proof->layout->frame;
    load_object(proof, code, frame->code_name, proof->types->str);
    load_object(proof, code, frame->code_filename, proof->types->str);
    uint64_t table = load_object(proof, code, frame->code_linetable, proof->types->bytes);
    load_word(proof, table, frame->head + sizeof(uint64_t) + load_word(proof, table, frame->head)); /* the last of its bytes */
    load(proof, code, frame->code_first_line, sizeof(int));
    if (frame->code_version != NO_FIELD)
        load(proof, code, frame->code_version, sizeof(int));
}

/* Returns whether the frame runs the program's code. */
static int prove_frame(struct proof *proof, uint64_t frame)
{
    enum { OWNED_BY_INTERPRETER = 3, TAGS = 7 };
    const struct python_frame_layout *layout = &proof->layout->frame;
    uint64_t code = load_word(proof, frame, layout->frame_code) & ~(uint64_t)TAGS;
    load_word(proof, frame, layout->frame_position);
    if ((layout->frame_owner != NO_FIELD && load(proof, frame, layout->frame_owner, 1) >= OWNED_BY_INTERPRETER) || !code ||
        load_type(proof, code) != (uint64_t)(uintptr_t)proof->types->code)
        return 0;
    prove_code(proof, code);
    return 1;
}

static uint64_t first_frame(struct proof *proof, const void *thread_state)
{
    const struct python_layout *layout = proof->layout;
    uint64_t frame = load_word(proof, (uint64_t)(uintptr_t)thread_state, layout->thread_frame);
    return layout->holder_frame == NO_FIELD || !frame ? frame : load_word(proof, frame, layout->holder_frame);
}

enum python_proof python_prove(const struct python_layout *layout, const struct python_types *types, const void *thread_state)
{
    struct proof proof = {.layout = layout, .types = types};
    uint64_t frame = first_frame(&proof, thread_state);
    unsigned programs = 0;
    for (unsigned i = 0; i < FRAMES && frame && !proof.error; i++) {
        programs += (unsigned)prove_frame(&proof, frame);
        frame = load_word(&proof, frame, layout->frame.frame_previous);
    }
    if (proof.error == EFAULT)
        return PYTHON_IS_OTHERWISE;
    return programs || proof.error ? PYTHON_IS_PROVEN : PYTHON_IS_UNPROVEN;
}
