/* The native half of captured stacks, resolved with libdw and without. Built with frame pointers. */
#include "support/test.h"

#include "stacks/native.h"
#include "stacks/libdw.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <dlfcn.h>
#include <link.h>

#define MOST 64
#define NOINLINE __attribute__((noinline))

void chain_inner(struct stack *out);
void chain_middle(struct stack *out);
void chain_outer(struct stack *out);

static int line_of_capture;
static volatile int sink; /* keeps the calls from being jumps */

NOINLINE void chain_inner(struct stack *out)
{
    line_of_capture = __LINE__ + 1;
    stack_capture(out);
    sink++;
}

NOINLINE void chain_middle(struct stack *out)
{
    chain_inner(out);
    sink++;
}

NOINLINE void chain_outer(struct stack *out)
{
    chain_middle(out);
    sink++;
}

static int with_libdw(void)
{
    if (!libdw_is_there())
        skip();
    return 1;
}

/* Without libdw all is the same but source lines. */
TEST(libdw_finds_functions_and_lines)
{
    struct stack stack;
    struct stack_frame plain[MOST], full[MOST];
    chain_outer(&stack);
    size_t count = native_frames(&stack, with_libdw(), full, MOST);
    assert_true(count >= 4);
    assert_string_equal(full[0].function, "chain_inner");
    assert_string_equal(full[1].function, "chain_middle");
    assert_string_equal(full[2].function, "chain_outer");
    assert_string_equal(full[3].function, "libdw_finds_functions_and_lines");
    assert_non_null(strstr(full[0].file, "test_stack_native.c"));
    assert_int_equal(full[0].line, line_of_capture);
    assert_string_equal(full[0].module, "unit_stack_native");
    assert_true(full[0].offset > full[1].offset - 4096 && full[0].offset < full[1].offset + 4096);
    assert_int_equal(full[0].is_python, 0);
    assert_int_equal(native_frames(&stack, 0, plain, MOST), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(plain[i].module, full[i].module);
        assert_int_equal(plain[i].offset, full[i].offset);
        assert_string_equal(plain[i].file, "");
        assert_int_equal(plain[i].line, 0);
        assert_true(i >= 4 || strcmp(plain[i].function, full[i].function) == 0);
    }
    plain[1].offset = 1;
    assert_int_equal(native_frames(&stack, 1, plain, 1), 1); /* there is room for no more */
    assert_int_equal(plain[1].offset, 1);
}

/* libdw opens the files of libraries for as long as a session lasts. */
TEST(a_started_process_inherits_no_file_of_libdw)
{
    struct libdw_session *session = with_libdw() ? libdw_begin() : NULL;
    char name[256] = "", file[256] = "";
    int line = 0, opened = 0;
    assert_non_null(session);
    libdw_name(session, (uint64_t)(uintptr_t)&malloc, name, sizeof name);
    libdw_line(session, (uint64_t)(uintptr_t)&with_libdw, 0, file, sizeof file, &line);
    for (int i = 3; i < 256; i++) {
        char path[64], of[512] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        if (readlink(path, of, sizeof of - 1) < 0 || strstr(of, "stack_native") == NULL)
            continue;
        opened++;
        assert_int_equal(fcntl(i, F_GETFD), FD_CLOEXEC);
    }
    assert_int_not_equal(opened, 0);
    libdw_end(session);
}

TEST(return_addresses_of_no_code_are_left_out)
{
    struct stack stack;
    struct stack_frame frames[MOST];
    srand(1);
    for (int round = 0; round < 20; round++) {
        chain_outer(&stack);
        for (int i = 0; i < 10; i++)
            stack.pcs[(unsigned)rand() % stack.count] = (uint64_t)rand() << 17 | (uint64_t)rand();
        native_frames(&stack, libdw_is_there(), frames, MOST);
        native_frames(&stack, 0, frames, MOST);
    }
    chain_outer(&stack);
    stack.pcs[0] = 0x1234;
    assert_true(native_frames(&stack, 0, frames, MOST) >= 3);
    assert_string_equal(frames[0].function, "chain_middle");
    for (stack.count = 2; stack.count-- > 0;)
        assert_int_equal(native_frames(&stack, libdw_is_there(), frames, MOST), 0);
}

static unsigned lines_read;

/* In front of libdw_line() (see tests/CMakeLists.txt). */
void __real_libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line);
void __wrap_libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line);
void __wrap_libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line)
{
    lines_read++;
    __real_libdw_line(session, address, is_wrapped, file, size, line);
}

/* Goes by the name of the C library's function that starts a thread. */
static NOINLINE void start_thread(struct stack *out)
{
    chain_outer(out);
    sink++;
}

/* Reading its line may take longer than the rest of the report. */
TEST(what_starts_a_thread_is_left_out_before_its_line_is_read)
{
    struct stack stack;
    struct stack_frame frames[MOST];
    start_thread(&stack);
    lines_read = 0;
    assert_int_equal(native_frames(&stack, with_libdw(), frames, 4), 3);
    assert_string_equal(frames[2].function, "chain_outer");
    assert_true(frames[2].line > 0);
    assert_int_equal(lines_read, 3);
    assert_true(native_frames(&stack, with_libdw(), frames, MOST) > 4); /* further out there is something to tell */
    assert_string_equal(frames[3].function, "start_thread");
    assert_true(frames[3].line > 0);
}

TEST(a_stack_begins_where_it_is_told_to)
{
    struct stack stack;
    const uint64_t *frame = __builtin_frame_address(0);
    stack_capture_from(&stack, frame);
    assert_int_equal(stack.pcs[0], frame[1]);
}

/* Memory for a stack, with unreadable memory behind it. */
static char *make_stack(size_t size)
{
    char *area = mmap(NULL, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area, size, PROT_READ | PROT_WRITE), 0);
    return area;
}

static void *capture_near_the_end(void *argument)
{
    chain_outer(argument);
    return NULL;
}

/* A new thread's stack is shallow: the walk must stop where it ends. */
TEST(nothing_beyond_a_threads_stack_is_read)
{
    enum { SIZE = 2048 * 1024 };
    pthread_attr_t attributes;
    pthread_t thread;
    struct stack stack;
    struct stack_frame frames[MOST];
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, make_stack(SIZE), SIZE), 0);
    assert_int_equal(pthread_create(&thread, &attributes, capture_near_the_end, &stack), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    assert_true(native_frames(&stack, libdw_is_there(), frames, MOST) >= 3);
}

static ucontext_t here, fibre;
static struct stack from_fibre;

static void fibre_main(void)
{
    chain_outer(&from_fibre);
    swapcontext(&fibre, &here);
}

/* A stack that the thread library knows nothing of. */
TEST(a_coroutines_stack_is_read_to_the_end_of_its_page)
{
    enum { SIZE = 64 * 1024 };
    struct stack_frame frames[MOST];
    getcontext(&fibre);
    fibre.uc_stack.ss_sp = make_stack(SIZE);
    fibre.uc_stack.ss_size = SIZE;
    fibre.uc_link = &here;
    makecontext(&fibre, fibre_main, 0);
    swapcontext(&here, &fibre);
    assert_true(native_frames(&from_fibre, with_libdw(), frames, MOST) >= 3);
    assert_string_equal(frames[2].function, "chain_outer");
}

/* ---- sessions of libdw, whose files change meanwhile ---- */

static char copy[] = "/tmp/cufence-test-XXXXXX";

/* Returns where the loaded part of the copy ends in its file, with the rest of the page. */
static int find_end(struct dl_phdr_info *info, size_t size, void *end)
{
    if (strcmp(info->dlpi_name, copy) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (off_t)(segment->p_offset + segment->p_filesz) > *(off_t *)end)
            *(off_t *)end = (off_t)(segment->p_offset + segment->p_filesz);
    }
    return 1;
}

static void look_at(void *function)
{
    char name[256] = "", file[512] = "";
    int line = 0;
    struct libdw_session *session = libdw_begin();
    if (!session)
        _exit(2);
    libdw_name(session, (uint64_t)(uintptr_t)function, name, sizeof name);
    libdw_line(session, (uint64_t)(uintptr_t)function, 0, file, sizeof file, &line);
    libdw_end(session);
}

static void cut_while_it_is_used(void)
{
    off_t end = 0, page = (off_t)sysconf(_SC_PAGESIZE);
    void *library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    void *first = library ? dlsym(library, "cuInit") : NULL, *second = library ? dlsym(library, "cuGraphLaunch") : NULL;
    if (!first || !second)
        _exit(3);
    for (int i = 0; i < 2; i++) /* libdw loads libraries of its own the first time */
        look_at(first);
    dl_iterate_phdr(find_end, &end);
    if (!end || truncate(copy, (end + page - 1) / page * page) != 0)
        _exit(4);
    look_at(second);
    _exit(0);
}

/* A build overwrites a library in place: what it had behind the code is gone, and touching it would end the process. */
TEST(a_file_that_has_changed_is_opened_again)
{
    char command[2048];
    int status = -1, made = with_libdw() ? mkstemp(copy) : -1;
    assert_true(made >= 0);
    close(made);
    snprintf(command, sizeof command, "cp %s %s", CUFENCE_SIM_LIBRARY, copy);
    assert_int_equal(system(command), 0);
    pid_t pid = fork();
    if (pid == 0)
        cut_while_it_is_used();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(copy);
    assert_int_equal(status, 0);
}
