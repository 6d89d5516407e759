/*
 * One step up a stack by a module's call frame information: .eh_frame, found through the binary search table of
 * .eh_frame_hdr. x86-64 only. Pure; no table and no stack, however damaged, makes it read outside of what it is given.
 *
 * What is read is what gcc, clang, their assemblers and glibc write: versions 1 and 3, augmentations zR, zP, zL, zS, the
 * instructions of DWARF with rules for the CFA and for registers, and the expressions of PLT entries, realigned stacks and
 * signal trampolines. Anything else ends the walk.
 *
 * Sources: the System V ABI's supplement for x86-64, section 3.7 (numbers of registers); the Linux Standard Base, Core,
 * sections 10.5 and 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, sections 2.5 and 6.4.
 */
#ifndef CUFENCE_STACKS_CFI_H
#define CUFENCE_STACKS_CFI_H

#include <stddef.h>
#include <stdint.h>

/* Readable bytes, and the address that the tables know them by. */
struct cfi_bytes {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

#define CFI_SEGMENTS 16

struct cfi_module {
    struct cfi_bytes header; /* .eh_frame_hdr */
    struct cfi_bytes segments[CFI_SEGMENTS];
    size_t segment_count; /* .eh_frame lies in one of these */
};

/* DWARF's numbers. */
enum { CFI_RBX = 3, CFI_RBP = 6, CFI_RSP = 7, CFI_R12 = 12, CFI_R15 = 15, CFI_RIP = 16, CFI_REGISTERS };

struct cfi_frame {
    uint64_t registers[CFI_REGISTERS];
    uint32_t known;     /* bit n: registers[n] is */
    int is_interrupted; /* rip is the instruction that a signal came before, and not a return address */
};

enum cfi_result {
    CFI_STEPPED,  /* *frame is the caller's */
    CFI_NO_ENTRY, /* the module says nothing about the frame's code; *frame is as it was */
    CFI_ENDED,    /* the outermost frame, one whose caller the stack does not tell, or tables that make no sense */
};

/* `stack` holds the words from the innermost frame's stack pointer upwards. rip and rsp of *frame are known. */
enum cfi_result cfi_step(const struct cfi_module *module, const struct cfi_bytes *stack, struct cfi_frame *frame);

#endif
