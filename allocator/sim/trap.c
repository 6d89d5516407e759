#include "trap.h"
#include "stream.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

struct guard {
    sigjmp_buf back;
    struct fault fault;
};

/* Initial-exec, because the first access to a dynamic thread-local variable allocates, which a signal handler must not do. */
static __thread struct guard *volatile current __attribute__((tls_model("initial-exec")));

static struct sigaction previous[2]; /* of SIGSEGV and SIGBUS; written once, by install() */
static pthread_once_t install_once = PTHREAD_ONCE_INIT;

#if defined(__aarch64__)
/* Whether it is a store, of A64's loads and stores (Arm Architecture Reference Manual, C4.1.94, and DC ZVA in C5.3). A copy of
 * memory (CPY) counts as a load. */
static int is_store(uint32_t code)
{
    enum { LOAD = 1u << 22, UNSIGNED_OFFSET = 1u << 24, VECTOR = 1u << 26 };
    if ((code & 0x3a000000) == 0x28000000 || (code & 0x3f000000) == 0x08000000 || (code & 0xbe000000) == 0x0c000000)
        return !(code & LOAD); /* pairs, exclusive ones, structures */
    if ((code & 0x3be00c00) == 0x19c00400)
        return 1; /* SETP, SETM, SETE: memset() */
    if ((code & 0x3a000000) != 0x38000000)
        return (code & 0xffffffe0) == 0xd50b7420; /* DC ZVA */
    if (!(code & UNSIGNED_OFFSET) && (code & 0x00200c00) == 0x00200000)
        return 1; /* atomic */
    return (code >> 22 & 3) == 0 || ((code & VECTOR) && code >> 30 == 0 && (code >> 22 & 3) == 2);
}
#endif

static int is_write_access(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0; /* page fault error code, bit 1: write */
#else
    const struct _aarch64_ctx *record = (const struct _aarch64_ctx *)context->uc_mcontext.__reserved;
    for (; record->magic != 0; record = (const struct _aarch64_ctx *)((const char *)record + record->size)) {
        if (record->magic == ESR_MAGIC)
            return (((const struct esr_context *)record)->esr & 0x40) != 0; /* ISS bit 6, WnR */
    }
    return is_store(*(const uint32_t *)(uintptr_t)context->uc_mcontext.pc); /* qemu gives no ESR */
#endif
}

static void leave(void)
{
    siglongjmp(current->back, 1);
}

/*
 * Makes the handler return into leave(), on the thread's own stack below the faulting code. Jumping out of the handler itself
 * would skip what ThreadSanitizer does at the end of a handler.
 */
static void resume_at_leave(ucontext_t *context)
{
#if defined(__x86_64__)
    greg_t *registers = context->uc_mcontext.gregs;
    /* Below the red zone of 128 bytes, and aligned as at function entry. */
    registers[REG_RSP] = ((registers[REG_RSP] - 128) & ~(greg_t)15) - 8;
    registers[REG_RIP] = (greg_t)(uintptr_t)leave;
#else
    context->uc_mcontext.pc = (uintptr_t)leave;
#endif
}

static void handle(int signal, siginfo_t *info, void *context)
{
    struct guard *guard = current;
    if (guard == NULL) { /* not ours: the access is repeated, and goes to the handler before */
        sigaction(signal, &previous[signal == SIGBUS], NULL);
        return;
    }
    guard->fault = (struct fault){(uint64_t)(uintptr_t)info->si_addr, is_write_access(context), EXCEPTION_ILLEGAL_ADDRESS};
    resume_at_leave(context);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous[0]);
    sigaction(SIGBUS, &action, &previous[1]);
}

void fault_thread_begin(char memory[FAULT_STACK_BYTES])
{
    stack_t stack = {.ss_sp = memory, .ss_size = FAULT_STACK_BYTES};
    pthread_once(&install_once, install);
    current = NULL;
    sigaltstack(&stack, NULL);
}

void fault_thread_end(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
}

int fault_catch(void (*function)(void *), void *argument, struct fault *fault)
{
    struct guard guard;
    if (sigsetjmp(guard.back, 0) != 0) {
        current = NULL;
        *fault = guard.fault;
        return 1;
    }
    current = &guard;
    function(argument);
    current = NULL;
    return 0;
}

void fault_raise(uint32_t exception)
{
    current->fault = (struct fault){.exception = exception};
    leave();
}

/* According to cuda.h's documentation of the errors. */
static CUresult error_of(uint32_t exception)
{
    static const CUresult errors[] = {[EXCEPTION_ILLEGAL_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS,
                                      [EXCEPTION_ILLEGAL_INSTRUCTION] = CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                      [EXCEPTION_ASSERT] = CUDA_ERROR_ASSERT};
    int is_listed = exception < sizeof errors / sizeof *errors && errors[exception] != CUDA_SUCCESS;
    return is_listed ? errors[exception] : CUDA_ERROR_LAUNCH_FAILED;
}

int fault_report(const struct fault_site *site)
{
    CUcontext context = site->context;
    const struct sim_config *config = config_get();
    const struct dump_settings *settings = &context->home->dump;
    /* Measured: without abort, a context survives its first fault but not its second. If several processes fault at once, one
     * of them may get the error before its dump. */
    int survives = atomic_fetch_add(&context->faults, 1) == 0 && settings->is_enabled && config->late_dump == 0;
    if (!settings->is_enabled || config->late_dump != 0)
        atomic_store(&context->error, error_of(site->exception));
    if (!settings->is_enabled)
        return 0;
    if (config->late_dump + config->swallow != 0) {
        stream_stop(context, 1);
        usleep((useconds_t)(config->late_dump + config->swallow) * 1000);
        stream_stop(context, 0);
    }
    stream_count_dumps(context, 1);
    coredump_write(site, settings);
    stream_count_dumps(context, -1);
    if ((settings->flags & CU_COREDUMP_SKIP_ABORT) == 0)
        abort();
    if (!survives)
        atomic_store(&context->error, error_of(site->exception));
    return survives;
}
