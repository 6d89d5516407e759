/* Stacks through compiled code, walked and resolved without libdw. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "stacks/libdw.h"
#include "stacks/native.h"
#include "unwind_code.h"

#include <dlfcn.h>

#define MOST 64
#define NOINLINE __attribute__((noinline))

static volatile int sink; /* keeps the calls from being jumps */

/* What a function with two parameters is called through. */
struct through {
    void (*function)(unwind_callee *callee, void *argument);
    struct stack *out;
};

NOINLINE static void go_through(void *argument)
{
    struct through *through = argument;
    through->function(code_take, through->out);
    sink++;
}

struct named {
    size_t count;
    struct stack_frame frames[MOST];
};

static const struct named *names_of(const struct stack *stack)
{
    static struct named named;
    named = (struct named){0};
    named.count = native_frames(stack, NULL, named.frames, MOST);
    return &named;
}

#define assert_frame(named, index, name)                                                                                       \
    do {                                                                                                                       \
        assert_true((named)->count > (index));                                                                                 \
        assert_string_equal((named)->frames[index].function, name);                                                            \
    } while (0)

/* code_take(), `function`, go_through(), code_small(), and here. */
NOINLINE static void finds_callers_beyond(void (*function)(unwind_callee *, void *), const char *name)
{
    struct stack stack;
    struct through through = {function, &stack};
    code_small(go_through, &through);
    sink++;
    const struct named *named = names_of(&stack);
    assert_frame(named, 0, "code_take");
    assert_frame(named, 1, name);
    assert_frame(named, 2, "go_through");
    assert_frame(named, 3, "code_small");
    assert_frame(named, 4, "finds_callers_beyond");
    assert_string_equal(named->frames[1].module, "unit_unwind");
    assert_string_equal(named->frames[1].file, "");
}

/* Without frame pointers, with all registers that callees keep, and with frames of odd sizes. */
TEST(no_shape_of_code_is_an_end)
{
    static const struct {
        void (*function)(unwind_callee *, void *);
        const char *name;
    } shapes[] = {{code_small, "code_small"},
                  {code_with_full_registers, "code_with_full_registers"},
                  {code_with_alloca, "code_with_alloca"},
                  {code_with_large_frame, "code_with_large_frame"},
                  {code_with_huge_frame, "code_with_huge_frame"},
                  {code_with_realigned_frame, "code_with_realigned_frame"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        finds_callers_beyond(shapes[i].function, shapes[i].name);
}

NOINLINE static void early(unwind_callee *callee, void *argument)
{
    code_with_two_ends(callee, argument, 1);
    sink++;
}

NOINLINE static void late(unwind_callee *callee, void *argument)
{
    code_with_two_ends(callee, argument, 0);
    sink++;
}

TEST(code_behind_an_early_return_is_no_end)
{
    void (*const ways[])(unwind_callee *, void *) = {early, late};
    const char *const names[] = {"early", "late"};
    for (int i = 0; i < 2; i++) {
        struct stack stack;
        ways[i](code_take, &stack);
        sink++;
        const struct named *named = names_of(&stack);
        assert_frame(named, 1, "code_with_two_ends");
        assert_frame(named, 2, names[i]);
        assert_frame(named, 3, "code_behind_an_early_return_is_no_end");
    }
}

#if defined(__x86_64__)
TEST(code_without_call_frame_information_is_crossed_by_frame_pointers)
{
    struct stack stack;
    struct through through = {plain_outer, &stack};
    code_small(go_through, &through);
    sink++;
    const struct named *named = names_of(&stack);
    assert_frame(named, 0, "code_take");
    assert_frame(named, 1, "plain_inner");
    assert_frame(named, 2, "plain_outer");
    assert_frame(named, 3, "go_through");
    assert_frame(named, 4, "code_small");
}

TEST(wild_frame_pointers_in_such_code_end_the_walk)
{
    struct stack stack;
    uint64_t pair[2] = {0, (uint64_t)(uintptr_t)&sink}, behind[2] = {0, (uint64_t)(uintptr_t)&code_small + 1};
    const uint64_t here = (uint64_t)(uintptr_t)pair;
    const uint64_t wild[] = {0, 1, here, here + 1, (uint64_t)(uintptr_t)behind, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        memset(&stack, 0x55, sizeof stack);
        plain_with_fp(code_take, &stack, wild[i]);
        const struct named *named = names_of(&stack);
        assert_frame(named, 1, "plain_with_fp");
        assert_int_equal(named->count, 2);
    }
}
#endif

NOINLINE static void calls_the_wrapper(unwind_callee *wrapper, void *stack)
{
    wrapper(stack);
    sink++;
}

TEST(a_static_runtimes_own_frames_are_left_out)
{
    struct stack stack;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        calls_the_wrapper(launchers[i].wrapper, &stack);
        sink++;
        const struct named *named = names_of(&stack);
        print_message("%s\n", launchers[i].of);
        assert_frame(named, 0, "calls_the_wrapper");
        assert_frame(named, 1, "a_static_runtimes_own_frames_are_left_out");
    }
    calls_the_wrapper(host_function, &stack);
    sink++;
    assert_frame(names_of(&stack), 0, "plain_(Tensor)"); /* it has the kernel's name, but other parameters */
}

TEST(a_launch_that_was_inlined_has_the_line_of_the_launch)
{
    static const struct {
        unwind_callee *function;
        const char *name;
        int line;
    } cases[] = {{code_that_launches, "code_that_launches", 20},
                 {code_that_calls_the_wrapper, "code_that_calls_the_wrapper", 30},
                 {code_that_calls_the_stub, "code_that_calls_the_stub", 40}};
    struct stack stack;
    struct stack_frame shown[4];
    if (!libdw_open())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        calls_the_wrapper(cases[i].function, &stack);
        sink++;
        assert_true(native_frames(&stack, libdw_open(), shown, 4) > 1);
        assert_string_equal(shown[0].function, cases[i].name);
        assert_non_null(strstr(shown[0].file, "model.cu"));
        assert_int_equal(shown[0].line, cases[i].line);
        assert_string_equal(shown[1].function, "calls_the_wrapper");
    }
}

static struct stack under_main;

TEST(what_starts_a_program_is_left_out)
{
    const struct named *named = names_of(&under_main);
    assert_int_equal(named->count, 2);
    assert_frame(named, 0, "code_take");
    assert_frame(named, 1, "main");
}

static void *take_in_thread(void *out)
{
    code_small(code_take, out);
    sink++;
    return NULL;
}

TEST(the_walk_ends_where_a_thread_began)
{
    struct stack stack;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_in_thread, &stack), 0);
    pthread_join(thread, NULL);
    const struct named *named = names_of(&stack);
    assert_frame(named, 1, "code_small");
    assert_frame(named, 2, "take_in_thread");
    assert_true(named->count >= 4 && named->count < 16);
    assert_int_equal(strncmp(named->frames[named->count - 1].module, "libc.so", strlen("libc.so")), 0);
}

/* ---- libraries ---- */

NOINLINE static void names_in_library(const char *path, struct stack *stack)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "library_outer");
    assert_non_null(symbol);
    unwind_library_outer *outer;
    memcpy(&outer, &symbol, sizeof outer);
    outer(code_take, stack);
    sink++;
}

TEST(a_librarys_static_functions_have_names)
{
    struct stack stack;
    names_in_library(UNWIND_LIBRARY, &stack);
    const struct named *named = names_of(&stack);
    assert_frame(named, 0, "code_take");
    assert_frame(named, 1, "library_inner");
    assert_frame(named, 2, "library_outer");
    assert_frame(named, 3, "names_in_library");
    assert_string_equal(named->frames[1].module, "libunwind_library.so");
    assert_string_equal(named->frames[2].module, "libunwind_library.so");
}

TEST(without_a_symbol_table_module_and_offset_are_left)
{
    struct stack stack, whole;
    names_in_library(UNWIND_LIBRARY, &whole);
    uint64_t offset = names_of(&whole)->frames[1].offset;
    names_in_library(UNWIND_STRIPPED, &stack);
    const struct named *named = names_of(&stack);
    assert_frame(named, 1, "");
    assert_frame(named, 2, "library_outer");
    assert_frame(named, 3, "names_in_library");
    assert_string_equal(named->frames[1].module, "libunwind_stripped.so");
    assert_int_equal(named->frames[1].offset, offset);
}

static void copy_file(const char *from, const char *to)
{
    char buffer[65536];
    size_t size;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    while ((size = fread(buffer, 1, sizeof buffer, in)) > 0)
        assert_int_equal(fwrite(buffer, 1, size, out), size);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* As when a program is built anew while it runs: the new file's symbols are not the code's that runs. */
TEST(another_file_of_the_same_name_gives_no_names)
{
    char folder[] = "/tmp/cufence-unwind-XXXXXX", path[64], other[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/library.so", folder);
    snprintf(other, sizeof other, "%s/other.so", folder);
    copy_file(UNWIND_LIBRARY, path);
    copy_file(UNWIND_OTHER, other);
    struct stack stack;
    names_in_library(path, &stack);
    assert_frame(names_of(&stack), 1, "library_inner");
    assert_int_equal(rename(other, path), 0);
    const struct named *named = names_of(&stack);
    assert_frame(named, 1, "");
    assert_frame(named, 2, "library_outer");
    assert_int_equal(unlink(path), 0);
    assert_frame(names_of(&stack), 1, "");
    rmdir(folder);
}

int main(int argc, char **argv)
{
    code_take(&under_main);
    return test_run(argc, argv);
}
