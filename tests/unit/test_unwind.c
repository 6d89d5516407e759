/* Stacks through compiled code, walked and resolved without libdw. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "stacks/libdw.h"
#include "stacks/native.h"
#include "unwind_load.h"

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

static struct stack_frame named[MOST];

/* Fills in `named`. Returns how many. */
static size_t name_frames(const struct stack *stack)
{
    memset(named, 0, sizeof named);
    return native_frames(stack, 0, named, MOST);
}

/* The innermost frames are of these functions, each in front of a blank; one without a name is "?". */
static void expect_names(const struct stack *stack, const char *wanted)
{
    char names[MOST * sizeof named->function] = "";
    size_t count = name_frames(stack);
    for (size_t i = 0; i < count; i++)
        strcat(strcat(names, *named[i].function ? named[i].function : "?"), " ");
    if (strncmp(names, wanted, strlen(wanted)) != 0)
        fail_msg("%s instead of %s", names, wanted);
}

/* code_take(), `function` and what it calls, go_through(), code_small(), and here. */
NOINLINE static void finds_callers_beyond(void (*function)(unwind_callee *, void *), const char *names)
{
    struct stack stack;
    struct through through = {function, &stack};
    code_small(go_through, &through);
    sink++;
    char wanted[128];
    snprintf(wanted, sizeof wanted, "code_take %s go_through code_small finds_callers_beyond ", names);
    expect_names(&stack, wanted);
    assert_string_equal(named[1].module, "unit_unwind");
    assert_string_equal(named[1].file, "");
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

/* Without frame pointers, with all registers that callees keep, with frames of odd sizes, and behind an early return; code
 * without call frame information is crossed by frame pointers. */
TEST(no_shape_of_code_is_an_end)
{
    static const struct {
        void (*function)(unwind_callee *, void *);
        const char *names;
    } shapes[] = {
        {code_small, "code_small"},
        {code_with_full_registers, "code_with_full_registers"},
        {code_with_alloca, "code_with_alloca"},
        {code_with_large_frame, "code_with_large_frame"},
        {code_with_huge_frame, "code_with_huge_frame"},
        {code_with_realigned_frame, "code_with_realigned_frame"},
        {early, "code_with_two_ends early"},
        {late, "code_with_two_ends late"},
#if defined(__x86_64__)
        {plain_outer, "plain_inner plain_outer"}
#endif
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        finds_callers_beyond(shapes[i].function, shapes[i].names);
}

#if defined(__x86_64__)
TEST(wild_frame_pointers_in_such_code_end_the_walk)
{
    struct stack stack;
    uint64_t pair[2] = {0, (uint64_t)(uintptr_t)&sink}, behind[2] = {0, (uint64_t)(uintptr_t)&code_small + 1};
    const uint64_t here = (uint64_t)(uintptr_t)pair;
    const uint64_t wild[] = {0, 1, here, here + 1, (uint64_t)(uintptr_t)behind, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        memset(&stack, 0x55, sizeof stack);
        plain_with_fp(code_take, &stack, wild[i]);
        expect_names(&stack, "code_take plain_with_fp ");
        assert_int_equal(name_frames(&stack), 2);
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
        print_message("%s\n", launchers[i].of);
        expect_names(&stack, "calls_the_wrapper a_static_runtimes_own_frames_are_left_out ");
    }
    calls_the_wrapper(host_function, &stack);
    sink++;
    expect_names(&stack, "plain_(Tensor) "); /* it has the kernel's name, but other parameters */
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
    if (!libdw_is_there())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        calls_the_wrapper(cases[i].function, &stack);
        sink++;
        assert_true(native_frames(&stack, 1, shown, 4) > 1);
        assert_string_equal(shown[0].function, cases[i].name);
        assert_non_null(strstr(shown[0].file, "model.cu"));
        assert_int_equal(shown[0].line, cases[i].line);
        assert_string_equal(shown[1].function, "calls_the_wrapper");
    }
}

static struct stack under_main;

TEST(what_starts_a_program_is_left_out)
{
    expect_names(&under_main, "code_take main ");
    assert_int_equal(name_frames(&under_main), 2);
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
    expect_names(&stack, "code_take code_small take_in_thread ");
    size_t count = name_frames(&stack);
    assert_true(count >= 4 && count < 16);
    assert_int_equal(strncmp(named[count - 1].module, "libc.so", strlen("libc.so")), 0);
}

/* ---- libraries ---- */

NOINLINE static void names_in_library(const char *path, struct stack *stack)
{
    library_function(path)(code_take, stack);
    sink++;
}

TEST(a_librarys_static_functions_have_names_if_it_has_a_symbol_table)
{
    struct stack stack;
    names_in_library(UNWIND_LIBRARY, &stack);
    expect_names(&stack, "code_take library_inner library_outer names_in_library ");
    assert_string_equal(named[1].module, "libunwind_library.so");
    assert_string_equal(named[2].module, "libunwind_library.so");
    uint64_t offset = named[1].offset;
    names_in_library(UNWIND_STRIPPED, &stack);
    expect_names(&stack, "code_take ? library_outer names_in_library ");
    assert_string_equal(named[1].module, "libunwind_stripped.so");
    assert_int_equal(named[1].offset, offset);
}

/* As when a program is built anew while it runs: the new file's symbols are not the code's that runs. */
TEST(another_file_of_the_same_name_gives_no_names)
{
    char folder[] = "/tmp/cufence-unwind-XXXXXX", path[64], other[64], command[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/library.so", folder);
    snprintf(other, sizeof other, "%s/other.so", folder);
    snprintf(command, sizeof command, "cp %s %s && cp %s %s", UNWIND_LIBRARY, path, UNWIND_OTHER, other);
    assert_int_equal(system(command), 0);
    struct stack stack;
    names_in_library(path, &stack);
    expect_names(&stack, "code_take library_inner ");
    assert_int_equal(rename(other, path), 0);
    expect_names(&stack, "code_take ? library_outer ");
    assert_int_equal(unlink(path), 0);
    expect_names(&stack, "code_take ? ");
    rmdir(folder);
}

int main(int argc, char **argv)
{
    code_take(&under_main);
    return test_run(argc, argv);
}
