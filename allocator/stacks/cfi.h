/*
 * Unwinds one frame with a module's call frame information: .eh_frame, found through the binary search table in .eh_frame_hdr.
 * x86-64 only. Pure; damaged tables or stacks never cause reads outside the given memory.
 *
 * Supports what gcc, clang, their assemblers and glibc write: versions 1 and 3, augmentations zR, zP, zL, zS, the DWARF
 * instructions with rules for the CFA and for registers, and the expressions of PLT entries, realigned stacks and signal
 * trampolines. Anything else ends the walk.
 *
 * Sources: the System V ABI's supplement for x86-64, section 3.7 (register numbers); the Linux Standard Base, Core, sections
 * 10.5 and 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, sections 2.5 and 6.4.
 */
#ifndef CUFENCE_STACKS_CFI_H
#define CUFENCE_STACKS_CFI_H

#include <stddef.h>
#include <stdint.h>

/* Readable bytes, and the address that the tables use for them. */
struct cfi_bytes {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

#define CFI_SEGMENTS 16

struct cfi_module {
    struct cfi_bytes header; /* .eh_frame_hdr */
    struct cfi_bytes segments[CFI_SEGMENTS];
    size_t segment_count; /* .eh_frame is in one of these */
};

/* DWARF register numbers. */
enum { CFI_RBX = 3, CFI_RBP = 6, CFI_RSP = 7, CFI_R12 = 12, CFI_R15 = 15, CFI_RIP = 16, CFI_REGISTERS };

struct cfi_frame {
    uint64_t registers[CFI_REGISTERS];
    uint32_t known;     /* bit n: registers[n] is known */
    int is_interrupted; /* rip is the instruction interrupted by a signal, not a return address */
};

enum cfi_result {
    CFI_STEPPED,  /* *frame is now the caller's */
    CFI_NO_ENTRY, /* the module has no entry for the frame's code; *frame is unchanged */
    CFI_ENDED,    /* the outermost frame, a frame whose caller is not on the stack, or invalid tables */
};

/* `stack` holds the words from the innermost frame's stack pointer upwards. Requires rip and rsp of *frame to be known. */
enum cfi_result cfi_step(const struct cfi_module *module, const struct cfi_bytes *stack, struct cfi_frame *frame);

/*
 * How to get from a frame to its caller's with nothing but the stack and the frame pointer: the CFA is where the caller's frame
 * begins, and the return address the word below it. Offsets are in words of 8 bytes.
 */
enum cfi_base {
    CFI_NOWHERE, /* the outermost frame, or a rule that needs more */
    CFI_FROM_SP, /* CFA = sp + cfa_words */
    CFI_FROM_FP, /* CFA = fp + cfa_words */
    CFI_AT_FP    /* CFA = the word at fp + cfa_words: a function that has realigned its stack */
};
enum cfi_fp { /* the caller's frame pointer */
              CFI_FP_SAME,
              CFI_FP_AT_CFA, /* the word at CFA + fp_words */
              CFI_FP_AT_FP,  /* the word at fp + fp_words */
              CFI_FP_LOST
};
struct cfi_rule {
    uint8_t base, fp; /* enum cfi_base, enum cfi_fp */
    int16_t cfa_words, fp_words;
};

/* The rule for the code at `pc`. CFI_NOWHERE if there is none. */
struct cfi_rule cfi_rule_at(const struct cfi_module *module, uint64_t pc);

#endif
