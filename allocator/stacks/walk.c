#include "walk.h"

#include "module.h"
#include "base/aside.h"

#include <string.h>

/* ---- what is known of a return address ---- */

/* A word of the cache. The two common rules have flags only; the others are `rare`. */
struct known {
#if defined(__aarch64__)
    uint8_t is_own : 1, is_behind_call : 1, from_fp : 1, fp_kept : 1; /* as below */
    uint8_t rare;
    int16_t link; /* the return address is the word at CFA + link */
#else
    uint8_t is_own : 1, is_behind_call : 1; /* the code is cufence's; a call instruction ends there */
    uint8_t from_fp;                        /* the CFA is fp + cfa, else sp + cfa */
    uint8_t fp_kept;                        /* the caller's frame pointer is the word at CFA + fp, else it is the same */
    uint8_t rare; /* 0, or of a rule that is none of these: 1 + its enum cfi_base, 16 times its enum cfi_fp added */
#endif
    int16_t cfa, fp; /* in words */
};
_Static_assert(sizeof(struct known) == sizeof(uint64_t), "a slot holds one in a word");

/*
 * A cache. `check` is pc ^ rule, so that a slot that two threads write at once is taken for neither's: Robert Hyatt, Timothy
 * Mann, "A lockless transposition-table implementation for parallel search chess engines", 2002. Both words are atomic.
 */
#define SLOTS 4096u /* a power of two; of 16 bytes */
static struct slot {
    uint64_t check, rule;
} slots[SLOTS];

/* Counts of the loader, which rise when it maps or unmaps a module. Addresses seen before may be other code then. Atomic. */
static uint64_t loaded, unloaded;

/* A module mapped where another one was makes other frames. */
struct interned_frame walk_frame(uint64_t pc)
{
    return (struct interned_frame){{pc, __atomic_load_n(&unloaded, __ATOMIC_RELAXED)}, pc};
}

static inline size_t slot_of(uint64_t pc)
{
    return (size_t)(pc ^ pc >> 11) & (SLOTS - 1);
}

static inline int look(uint64_t pc, size_t at, struct known *out)
{
    uint64_t rule = __atomic_load_n(&slots[at].rule, __ATOMIC_RELAXED);
    if ((__atomic_load_n(&slots[at].check, __ATOMIC_RELAXED) ^ rule) != pc)
        return 0;
    memcpy(out, &rule, sizeof rule);
    return 1;
}

static void keep(uint64_t pc, const struct known *known)
{
    uint64_t rule;
    memcpy(&rule, known, sizeof rule);
    size_t at = slot_of(pc);
    if (__atomic_load_n(&slots[at].check, __ATOMIC_RELAXED) != 0) /* in use: the other slot of the pair */
        at ^= 1;
    __atomic_store_n(&slots[at].rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&slots[at].check, pc ^ rule, __ATOMIC_RELAXED);
}

static void forget_all(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        __atomic_store_n(&slots[i].check, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&slots[i].rule, 0, __ATOMIC_RELAXED);
    }
}

/* ---- asking the loader ---- */

struct question {
    uint64_t pc;
    struct known known;
};

static struct known known_by(struct cfi_rule rule)
{
    int is_common = (rule.base == CFI_FROM_SP || rule.base == CFI_FROM_FP) && rule.fp <= CFI_FP_AT_CFA;
    return (struct known)
    {
        .from_fp = rule.base == CFI_FROM_FP, .fp_kept = rule.fp == CFI_FP_AT_CFA,
        .rare = is_common ? 0 : (uint8_t)(1 + rule.base + 16 * rule.fp),
#if defined(__aarch64__)
        .link = rule.return_words,
#endif
        .cfa = rule.cfa_words, .fp = rule.fp_words
    };
}

/* Whether a call instruction ends at `end`: e8 with a 32-bit displacement, or ff /2 with an operand of one to six bytes (Intel
 * SDM, volume 2, CALL). Asked on x86-64 only. */
enum { LONGEST_CALL = 7 };
static int is_call(const unsigned char *end)
{
    int is = end[-5] == 0xe8;
    for (int size = 2; size <= LONGEST_CALL; size++)
        is |= end[-size] == 0xff && (end[1 - size] & 0x38) == 0x10;
    return is;
}

static int answer(const struct dl_phdr_info *info, uint64_t pc, void *argument)
{
    struct known *known = argument;
    struct cfi_module tables;
    const unsigned char *call = module_bytes(info, pc + 1 - LONGEST_CALL - info->dlpi_addr, LONGEST_CALL);
    module_tables(info, &tables);
    *known = known_by(cfi_rule_at(&tables, pc));
    known->is_own = module_is_cufence(info->dlpi_name) != 0;
    known->is_behind_call = call && is_call(call + LONGEST_CALL);
    return 1;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *argument)
{
    uint64_t *counts = argument;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        counts[0] = info->dlpi_adds;
        counts[1] = info->dlpi_subs;
    }
    return 1;
}

static void look_up(void *argument)
{
    struct question *question = argument;
    uint64_t counts[2] = {0};
    dl_iterate_phdr(read_counts, counts);
    if (counts[0] != __atomic_load_n(&loaded, __ATOMIC_RELAXED) || counts[1] != __atomic_load_n(&unloaded, __ATOMIC_RELAXED)) {
        forget_all();
        __atomic_store_n(&loaded, counts[0], __ATOMIC_RELAXED);
        __atomic_store_n(&unloaded, counts[1], __ATOMIC_RELAXED);
    }
    module_visit(question->pc - 1, answer, &question->known);
    keep(question->pc, &question->known);
}

static __attribute__((cold, noinline)) struct known ask(uint64_t pc)
{
    struct question question = {.pc = pc, .known = known_by(cfi_no_entry)}; /* generated code */
    aside_call(look_up, &question);
    return question.known;
}

static __attribute__((noinline)) struct known look_further(uint64_t pc)
{
    struct known known;
    return look(pc, slot_of(pc) ^ 1, &known) ? known : ask(pc);
}

static inline __attribute__((always_inline)) struct known known_of(uint64_t pc)
{
    struct known known;
    return __builtin_expect(look(pc, slot_of(pc), &known), 1) ? known : look_further(pc);
}

/* ---- walking ---- */

/* The end of the calling thread's stack. On a stack unknown to the thread library (a coroutine's), the end of sp's page. */
static inline uint64_t stack_end(uint64_t sp)
{
    enum { PAGE_BYTES = 4096 }; /* the smallest page size; up to the next multiple of it, memory is always mapped */
    if (__builtin_expect(aside_own.high == 0, 0))
        aside_ask_for_bounds();
    return sp >= aside_own.low && sp < aside_own.high ? aside_own.high : (sp | (PAGE_BYTES - 1)) + 1;
}

/* Reads an aligned word of the calling thread's stack, whoever's frame it is in: exempt from sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifdef IS_SANITIZED
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread")))
#else
inline
#endif
static uint64_t
load(uint64_t address)
{
    return *(const volatile uint64_t *)(uintptr_t)address;
}

struct position {
    uint64_t pc, sp, fp;
};

/* Reads a word of the stack at or above `sp` and below `end`. */
static inline int read_word(uint64_t sp, uint64_t end, uint64_t address, uint64_t *out)
{
    if (__builtin_expect(address - sp > end - sp - sizeof *out || address % sizeof *out != 0, 0))
        return 0;
    *out = load(address);
    return 1;
}

static inline uint64_t moved(uint64_t address, int16_t words)
{
    return address + (uint64_t)(int64_t)words * sizeof(uint64_t);
}

/* Reads the return address of the frame that ends at `cfa`. */
static inline int read_return_address(uint64_t sp, uint64_t end, uint64_t cfa, struct known known, uint64_t *out)
{
#if defined(__aarch64__)
    int is_read = read_word(sp, end, moved(cfa, known.link), out);
    *out = is_read ? cfi_host_address(*out) : 0;
    return is_read;
#else
    (void)known;
    return read_word(sp, end, cfa - sizeof *out, out);
#endif
}

/* By a rule that is rare. Returns 0 at the outermost frame. */
static __attribute__((cold, noinline)) int step_rarely(struct position *at, struct known known, uint64_t end)
{
    uint64_t cfa = 0, pc, fp = 0, from = at->fp;
    unsigned base = (known.rare - 1u) % 16, kept = (known.rare - 1u) / 16;
    if (base == CFI_FROM_SP)
        cfa = moved(at->sp, known.cfa);
    else if (base == CFI_FROM_FP || (base == CFI_NO_ENTRY && !CFI_HOST_LINKS)) /* elsewhere a frame's end is then unknown */
        cfa = moved(from, known.cfa);
    else if (base != CFI_AT_FP || !read_word(at->sp, end, moved(from, known.cfa), &cfa))
        return 0;
    if (cfa <= at->sp || !read_return_address(at->sp, end, cfa, known, &pc))
        return 0;
    if (base == CFI_NO_ENTRY && !known_of(pc).is_behind_call) /* it may be no frame pointer */
        return 0;
    if (kept == CFI_FP_SAME)
        fp = from;
    else if (kept != CFI_FP_LOST && !read_word(at->sp, end, moved(kept == CFI_FP_AT_CFA ? cfa : from, known.fp), &fp))
        fp = 0;
    *at = (struct position){pc, cfa, fp};
    return pc != 0;
}

/* Returns 0 at the outermost frame. By value: through a pointer, each step would wait for the one before to be stored. */
static inline __attribute__((always_inline)) struct position step(struct position at, struct known known, uint64_t end)
{
    static const struct position none = {0};
    if (__builtin_expect(known.rare, 0)) {
        struct position copy = at;
        return step_rarely(&copy, known, end) ? copy : none;
    }
    uint64_t cfa = moved(known.from_fp ? at.fp : at.sp, known.cfa), pc, fp = at.fp;
    if (cfa <= at.sp || !read_return_address(at.sp, end, cfa, known, &pc))
        return none;
    if (known.fp_kept && !read_word(at.sp, end, moved(cfa, known.fp), &fp))
        fp = 0;
    return (struct position){pc, cfa, fp};
}

#if defined(__aarch64__)
/* The frame address is that of the frame record (AAPCS64, section 6.4.6), which may lie anywhere in the frame. The functions
 * from here to that one are cufence's, and keep frame pointers; the last of them knows a return address into it. */
__attribute__((noinline)) uint64_t walk_frame_end(const void *frame)
{
    enum { CALLS_MOST = 64 };
    const uint64_t *record = __builtin_frame_address(0);
    for (int i = 0; i < CALLS_MOST && (const void *)record < frame; i++) {
        uint64_t next = load((uint64_t)(uintptr_t)record);
        if (next == (uint64_t)(uintptr_t)frame) {
            struct known known = known_of(cfi_host_address(load((uint64_t)(uintptr_t)(record + 1))));
            return !known.rare && known.fp_kept ? moved(next, (int16_t)-known.fp) : 0;
        }
        record = (const uint64_t *)(uintptr_t)next;
    }
    return 0;
}
#endif

size_t walk_frames(const void *frame, uint64_t *out, size_t most, uint64_t *hash)
{
    enum { STEPS_MOST = 2 * INTERNED_DEPTH }; /* with cufence's own */
    struct interned_sum sum = {0};
    const uint64_t *pair = frame; /* the saved frame pointer and the return address */
    uint64_t sp = walk_frame_end(frame), end = stack_end(sp);
    struct position at = {cfi_host_address(load((uint64_t)(uintptr_t)(pair + 1))), sp, load((uint64_t)(uintptr_t)pair)};
    for (unsigned steps = 0; at.pc && steps < STEPS_MOST && sum.count < most; steps++) {
        struct known known = known_of(at.pc);
        if (!known.is_own) {
            out[sum.count] = at.pc;
            struct interned_frame next = walk_frame(at.pc);
            interned_mix(&sum, &next);
        }
        at = step(at, known, end);
    }
    *hash = interned_hash(&sum);
    return sum.count;
}
