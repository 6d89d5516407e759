#include "native.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u /* the smallest there is: whatever the size, the rest of these bytes is mapped too */
#define FRAMES_MOST 64

/* Of the C++ ABI (libstdc++); malloc'ed, NULL if `name` is not mangled. */
extern char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

/* ---- taking ---- */

/* The calling thread's stack, [low, high); 0: not asked yet, 1: the thread library does not know. */
static __attribute__((tls_model("initial-exec"))) _Thread_local uint64_t stack_low, stack_high;

static __attribute__((cold, noinline)) void ask_for_bounds(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    stack_low = stack_high = 1;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        stack_low = (uint64_t)(uintptr_t)low;
        stack_high = stack_low + size;
    }
    pthread_attr_destroy(&attributes);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

/* Other functions' frames, with red zones and with variables that other threads write: no sanitizer is to look. */
#ifdef IS_SANITIZED
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static void
copy_words(uint64_t *to, const volatile uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
}
#else
static inline void copy_words(uint64_t *to, const uint64_t *from, size_t count)
{
    memcpy(to, from, count * sizeof *to);
}
#endif

void native_capture(struct stack *out, uint64_t pc, const uint64_t *from, uint64_t fp)
{
    uint64_t sp = (uint64_t)(uintptr_t)from;
    if (__builtin_expect(stack_high == 0, 0))
        ask_for_bounds();
    uint64_t end = sp >= stack_low && sp < stack_high ? stack_high : (sp | (PAGE_BYTES - 1)) + 1;
    uint64_t words = (end - sp) / sizeof(uint64_t);
    out->pc = pc;
    out->sp = sp;
    out->fp = fp;
    out->word_count = words < STACK_WORDS ? (uint32_t)words : STACK_WORDS;
    copy_words(out->words, from, out->word_count);
}

/* ---- modules ---- */

struct module {
    uint64_t address; /* asked for */
    int is_found;     /* it lies in code that can be read */
    uint64_t code_start;
    uint64_t offset; /* of the address in the file */
    char path[PATH_MAX];
};

static int look_for_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct module *module = argument;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X) || module->address < start ||
            module->address - start >= segment->p_memsz)
            continue;
        module->is_found = 1;
        module->code_start = start;
        module->offset = module->address - start + segment->p_offset;
        snprintf(module->path, sizeof module->path, "%s", info->dlpi_name);
        return 1;
    }
    return 0;
}

static struct module module_of(uint64_t address)
{
    struct module module = {.address = address};
    dl_iterate_phdr(look_for_module, &module);
    if (module.is_found && !module.path[0]) /* the program itself */
        snprintf(module.path, sizeof module.path, "%s", program_invocation_name);
    return module;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_of_cufence(const struct stack_frame *frame)
{
    return strncmp(frame->module, "libcufence", strlen("libcufence")) == 0;
}

static int is_of_cuda(const struct stack_frame *frame)
{
    return strncmp(frame->module, "libcuda.so", strlen("libcuda.so")) == 0 ||
           strncmp(frame->module, "libcudart.so", strlen("libcudart.so")) == 0 ||
           strncmp(frame->module, "libcudart-", strlen("libcudart-")) == 0; /* as some wheels rename it */
}

/* ---- unwinding by frame pointers ---- */

#if defined(__x86_64__)
/* Behind a call: e8 with a 32-bit distance, or ff /2 with an operand of one to six bytes (Intel SDM, volume 2, CALL). */
static int follows_call(uint64_t address)
{
    struct module module = module_of(address - 1);
    if (!module.is_found || address - module.code_start < 7)
        return 0;
    const unsigned char *end = (const unsigned char *)(uintptr_t)address;
    if (end[-5] == 0xe8)
        return 1;
    for (int size = 2; size <= 7; size++) {
        if (end[-size] == 0xff && (end[1 - size] & 0x38) == 0x10)
            return 1;
    }
    return 0;
}

static int saved_pair(const struct stack *stack, uint64_t fp, uint64_t *next, uint64_t *pc)
{
    uint64_t index = (fp - stack->sp) / sizeof(uint64_t);
    if (fp < stack->sp || fp % sizeof(uint64_t) != 0 || stack->word_count < 2 || index > stack->word_count - 2)
        return 0;
    *next = stack->words[index];
    *pc = stack->words[index + 1];
    return 1;
}

/* A link counts if it lies in the saved words, leads outwards, and its return address is one. */
static size_t follow_frame_pointers(const struct stack *stack, uint64_t *pcs, size_t count, size_t max)
{
    uint64_t fp = stack->fp, next, pc;
    while (count < max && saved_pair(stack, fp, &next, &pc) && follows_call(pc)) {
        pcs[count++] = pc;
        if (next <= fp)
            break;
        fp = next;
    }
    return count;
}
#else
static size_t follow_frame_pointers(const struct stack *stack, uint64_t *pcs, size_t count, size_t max)
{
    (void)stack, (void)pcs, (void)max;
    return count;
}
#endif

/* ---- frames ---- */

static void demangle(char *function, size_t size)
{
    int status = 0;
    char *name = strncmp(function, "_Z", 2) == 0 ? __cxa_demangle(function, NULL, NULL, &status) : NULL;
    if (name)
        snprintf(function, size, "%s", name);
    free(name);
}

static void describe(struct libdw_session *session, uint64_t pc, struct stack_frame *frame)
{
    *frame = (struct stack_frame){0};
    struct module module = module_of(pc - 1);
    if (module.is_found) {
        snprintf(frame->module, sizeof frame->module, "%.127s", base_name(module.path));
        frame->offset = module.offset + 1;
    }
    if (session)
        libdw_describe(session, pc, frame);
    Dl_info info;
    if (!frame->function[0] && dladdr((void *)(uintptr_t)(pc - 1), &info) && info.dli_sname)
        snprintf(frame->function, sizeof frame->function, "%s", info.dli_sname);
    demangle(frame->function, sizeof frame->function);
}

/* Drops cufence's frames, and the leading ones of CUDA if others follow. Returns how many stay. */
static size_t drop_internal(struct stack_frame *frames, size_t count)
{
    size_t kept = 0, cuda = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_of_cufence(&frames[i]))
            frames[kept++] = frames[i];
    }
    while (cuda < kept && is_of_cuda(&frames[cuda]))
        cuda++;
    if (cuda == kept)
        return kept;
    memmove(frames, frames + cuda, (kept - cuda) * sizeof *frames);
    return kept - cuda;
}

size_t native_frames(const struct stack *stack, const struct libdw *libdw, struct stack_frame *out, size_t max)
{
    uint64_t pcs[FRAMES_MOST];
    size_t count = 0;
    if (!stack->pc)
        return 0;
    struct libdw_session *session = libdw ? libdw_begin(libdw) : NULL;
    struct stack_frame *frames = calloc(FRAMES_MOST, sizeof *frames);
    if (!frames)
        goto done;
    if (session)
        count = libdw_unwind(session, stack, pcs, FRAMES_MOST);
    if (count == 0) {
        pcs[count++] = stack->pc;
        count = follow_frame_pointers(stack, pcs, count, FRAMES_MOST);
    }
    for (size_t i = 0; i < count; i++)
        describe(session, pcs[i], &frames[i]);
    count = drop_internal(frames, count);
    if (count > max)
        count = max;
    memcpy(out, frames, count * sizeof *frames);
done:
    free(frames);
    if (session)
        libdw_end(session);
    return count;
}
