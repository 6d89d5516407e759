#include "unwind.h"

#if defined(__x86_64__)

#include "cfi.h"
#include "module.h"

struct step {
    const struct cfi_bytes *words;
    struct cfi_frame *frame;
    enum cfi_result result;
};

static int step_in_module(const struct dl_phdr_info *info, void *argument)
{
    struct step *step = argument;
    struct cfi_module module;
    module_tables(info, &module);
    step->result = cfi_step(&module, step->words, step->frame);
    return 1;
}

static int has_code(const struct dl_phdr_info *info, void *argument)
{
    (void)info, (void)argument;
    return 1;
}

/* Whether `address` follows a call instruction: e8 with a 32-bit displacement, or ff /2 with an operand of one to six bytes
 * (Intel SDM, volume 2, CALL). */
static int follows_call(uint64_t address)
{
    enum { LONGEST = 7 };
    if (!module_visit(address - 1, has_code, NULL) || !module_visit(address - LONGEST, has_code, NULL))
        return 0;
    const unsigned char *end = (const unsigned char *)(uintptr_t)address;
    if (end[-5] == 0xe8)
        return 1;
    for (int size = 2; size <= LONGEST; size++) {
        if (end[-size] == 0xff && (end[1 - size] & 0x38) == 0x10)
            return 1;
    }
    return 0;
}

/* Accepts a link only if it is within the saved words, further up the stack, and holds a valid return address. */
static int step_by_frame_pointer(const struct stack *stack, struct cfi_frame *frame)
{
    uint64_t fp = frame->registers[CFI_RBP], index = (fp - stack->sp) / sizeof(uint64_t);
    if (!(frame->known >> CFI_RBP & 1) || fp < frame->registers[CFI_RSP] || (fp - stack->sp) % sizeof(uint64_t) != 0 ||
        stack->word_count < 2 || index > stack->word_count - 2 || !follows_call(stack->words[index + 1]))
        return 0;
    *frame = (struct cfi_frame){.known = 1u << CFI_RBP | 1u << CFI_RSP | 1u << CFI_RIP};
    frame->registers[CFI_RBP] = stack->words[index];
    frame->registers[CFI_RIP] = stack->words[index + 1];
    frame->registers[CFI_RSP] = fp + 2 * sizeof(uint64_t);
    return 1;
}

static int step_up(const struct stack *stack, struct cfi_frame *frame)
{
    struct cfi_bytes words = {stack->sp, (const uint8_t *)stack->words, stack->word_count * sizeof(uint64_t)};
    struct step step = {.words = &words, .frame = frame, .result = CFI_NO_ENTRY};
    module_visit(frame->registers[CFI_RIP] - !frame->is_interrupted, step_in_module, &step);
    if (step.result == CFI_NO_ENTRY)
        return step_by_frame_pointer(stack, frame);
    return step.result == CFI_STEPPED;
}

size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max)
{
    struct cfi_frame frame = {.known = 1u << CFI_RBP | 1u << CFI_RSP | 1u << CFI_RIP};
    frame.registers[CFI_RIP] = stack->pc;
    frame.registers[CFI_RSP] = stack->sp;
    frame.registers[CFI_RBP] = stack->fp;
    size_t count = 0;
    do {
        if (count == max)
            break;
        pcs[count++] = frame.registers[CFI_RIP] + (uint64_t)frame.is_interrupted;
    } while (step_up(stack, &frame));
    return count;
}

#else

size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max)
{
    if (max == 0)
        return 0;
    pcs[0] = stack->pc;
    return 1;
}

#endif
