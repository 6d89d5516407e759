#include "native.h"

#include "cfi.h"
#include "module.h"

#include <string.h>

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

#if defined(__x86_64__)
/* Whether a call instruction ends at `end`: e8 with a 32-bit displacement, or ff /2 with an operand of one to six bytes (Intel
 * SDM, volume 2, CALL). */
enum { LONGEST_CALL = 7 };
static int is_call(const unsigned char *end)
{
    if (end[-5] == 0xe8)
        return 1;
    for (int size = 2; size <= LONGEST_CALL; size++) {
        if (end[-size] == 0xff && (end[1 - size] & 0x38) == 0x10)
            return 1;
    }
    return 0;
}
#else
/* The same: BL, BLR, and BLRAA and its kin (Arm Architecture Reference Manual, C6.2). */
enum { LONGEST_CALL = 4 };
static int is_call(const unsigned char *end)
{
    uint32_t instruction;
    memcpy(&instruction, end - sizeof instruction, sizeof instruction);
    return (instruction & 0xfc000000) == 0x94000000 || (instruction & 0xfffffc1f) == 0xd63f0000 ||
           (instruction & 0xfefff800) == 0xd63f0800;
}
#endif

static int follows_call(uint64_t address)
{
    return module_visit(address - 1, has_code, NULL) && module_visit(address - LONGEST_CALL, has_code, NULL) &&
           is_call((const unsigned char *)(uintptr_t)address);
}

/* Accepts a link only if it is within the saved words, further up the stack, and holds a valid return address. On AArch64 it
 * does not lie at the end of the frame, so the caller's stack pointer is not known. */
static int step_by_frame_pointer(const struct stack *stack, struct cfi_frame *frame)
{
    const struct cfi_abi *abi = &CFI_HOST;
    uint64_t fp = frame->registers[abi->fp], index = (fp - stack->sp) / sizeof(uint64_t);
    if (!(frame->known >> abi->fp & 1) || fp < frame->registers[abi->sp] || (fp - stack->sp) % sizeof(uint64_t) != 0 ||
        stack->word_count < 2 || index > stack->word_count - 2)
        return 0;
    uint64_t pc = cfi_host_address(stack->words[index + 1]);
    if (!follows_call(pc))
        return 0;
    *frame = (struct cfi_frame){.known = CFI_BIT(abi->fp) | CFI_BIT(abi->pc) | (CFI_HOST_LINKS ? 0 : CFI_BIT(abi->sp))};
    frame->registers[abi->fp] = stack->words[index];
    frame->registers[abi->pc] = pc;
    frame->registers[abi->sp] = fp + 2 * sizeof(uint64_t);
    return 1;
}

static int step_up(const struct stack *stack, struct cfi_frame *frame)
{
    struct cfi_bytes words = {stack->sp, (const uint8_t *)stack->words, stack->word_count * sizeof(uint64_t)};
    struct step step = {.words = &words, .frame = frame, .result = CFI_NO_ENTRY};
    module_visit(frame->registers[CFI_HOST.pc] - !frame->is_interrupted, step_in_module, &step);
    if (step.result == CFI_NO_ENTRY)
        return step_by_frame_pointer(stack, frame);
    return step.result == CFI_STEPPED;
}

size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max)
{
    const struct cfi_abi *abi = &CFI_HOST;
    struct cfi_frame frame = {.known = CFI_BIT(abi->fp) | CFI_BIT(abi->sp) | CFI_BIT(abi->pc)};
    frame.registers[abi->pc] = stack->pc;
    frame.registers[abi->sp] = stack->sp;
    frame.registers[abi->fp] = stack->fp;
    size_t count = 0;
    do {
        if (count == max)
            break;
        pcs[count++] = frame.registers[abi->pc] + (uint64_t)frame.is_interrupted;
    } while (step_up(stack, &frame));
    return count;
}
