/* Which frames a report shows, and how it writes their file names. */
#include "support/test.h"

#include "finding/frames.h"

#define PACKAGES "/venv/lib/python3.12/site-packages/"

/* A stack out of letters: p: of the program, l: of a package, s: of Python itself, m: made at run time, n: native. */
static size_t make(const char *letters, struct stack_frame *frames)
{
    size_t count = strlen(letters);
    memset(frames, 0, count * sizeof *frames);
    for (size_t i = 0; i < count; i++) {
        const char *file = letters[i] == 'p'   ? "/home/me/train.py"
                           : letters[i] == 'l' ? PACKAGES "torch/nn/functional.py"
                           : letters[i] == 's' ? "/usr/lib/python3.12/threading.py"
                           : letters[i] == 'm' ? "<string>"
                                               : "launch.cpp";
        frames[i].is_python = letters[i] != 'n';
        snprintf(frames[i].file, sizeof frames[i].file, "%s", file);
    }
    return count;
}

TEST(the_programs_own_frames_come_first)
{
    static const struct {
        const char *stack, *shown;
        size_t lines;
    } rows[] = {
        {"p", "1", 8},
        {"lllp", "1111", 4},
        {"lllp", "1101", 3},
        {"lllp", "1001", 2},
        {"lllp", "1000", 1},
        {"llllllllllllp", "1111111000001", 8},
        {"lllplllpllllp", "1111100100001", 7},
        {"pppppppppp", "1111111100", 8},
        {"lsmlpsmp", "10001001", 3},
        {"nnnnnnnnnn", "1111111100", 8},
        {"lllllllppnnn", "110000011000", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stack_frame frames[STACK_READ];
        unsigned char shown[STACK_READ];
        char text[STACK_READ + 1] = "";
        size_t count = make(rows[i].stack, frames), taken = frames_choose(frames, count, rows[i].lines, shown), ones = 0;
        for (size_t k = 0; k < count; k++) {
            text[k] = shown[k] ? '1' : '0';
            ones += shown[k];
        }
        assert_string_equal(text, rows[i].shown);
        assert_int_equal(taken, ones);
    }
}

TEST(a_test_runner_is_left_out)
{
    static const struct {
        const char *files[5];
        size_t count;
    } rows[] = {
        {{"/home/me/train.py", PACKAGES "torch/x.py", "/home/me/main.py"}, 3},
        {{"/home/me/test_it.py", PACKAGES "_pytest/python.py", PACKAGES "pluggy/_callers.py", "/usr/bin/pytest"}, 1},
        {{PACKAGES "torch/x.py", "/home/me/test_it.py", PACKAGES "pluggy/_callers.py"}, 2},
        {{PACKAGES "_pytest/python.py", "/home/me/a.py", PACKAGES "_pytest/python.py"}, 2},
        {{"/home/me/_pytest/python.py", "/home/me/pluggy/own.py"}, 2},
        {{PACKAGES "_pytest_cases/python.py", PACKAGES "mine/_pytest/x.py"}, 2},
        {{NULL}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stack_frame frames[5] = {0};
        size_t count = 0;
        for (; count < 5 && rows[i].files[count]; count++) {
            frames[count].is_python = 1;
            snprintf(frames[count].file, sizeof frames[count].file, "%s", rows[i].files[count]);
        }
        assert_int_equal(frames_without_runner(frames, count), rows[i].count);
    }
}

/* What only passes a call on hides the line of the program: neither is it shown, nor is it the program's own frame. */
TEST(plumbing_is_left_out)
{
    static const char invoke[] =
        "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)";
    static const char lambda[] = "main::{lambda(int)#1}::operator()(int) const";
    struct stack_frame frames[5] = {0};
    unsigned char shown[5];
    char name[160];
    snprintf(frames[0].function, sizeof frames[0].function, "%s", invoke);
    snprintf(frames[1].function, sizeof frames[1].function, "%s", lambda);
    snprintf(frames[2].function, sizeof frames[2].function, "%s", invoke);
    snprintf(frames[3].function, sizeof frames[3].function, "main");
    assert_ptr_equal(frames_own(frames, 4), &frames[1]);
    assert_int_equal(frames_choose(frames, 4, 8, shown), 2);
    assert_memory_equal(shown, ((unsigned char[]){0, 1, 0, 1}), 4);
    assert_int_equal(frames_choose(frames, 1, 8, shown), 1); /* nothing else is there */
    assert_ptr_equal(frames_own(frames, 1), &frames[0]);
    frames_function(&frames[1], name, sizeof name);
    assert_string_equal(name, "main::{lambda}");
    frames[1].is_python = 1;
    frames_function(&frames[1], name, sizeof name);
    assert_string_equal(name, lambda);
}

/* Whoever works on Triton runs it in its checkout: the launch is still the program's. */
TEST(a_checkout_of_triton_is_no_code_of_the_program)
{
    static const char *const files[] = {"/home/me/triton/python/triton/backends/nvidia/driver.py",
                                        "/home/me/triton/python/triton/runtime/jit.py", "/home/me/train.py"};
    struct stack_frame frames[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        snprintf(frames[i].file, sizeof frames[i].file, "%s", files[i]);
        frames[i].is_python = 1;
    }
    assert_ptr_equal(frames_own(frames, 3), &frames[2]);
}

/* torch.compile: the launch is in code that Inductor generated, and the program's line is what called it. */
TEST(generated_code_is_the_programs_for_want_of_better)
{
#define HASHED "cr4xblreulpzjgutjyn3vmx3xoqoi2wui6fgw2uq4i4e4af4ojrg.py"
    static const char *const files[] = {PACKAGES "torch/_inductor/runtime/triton_heuristics.py",
                                        "/tmp/torchinductor_me/r4/" HASHED, PACKAGES "torch/_inductor/output_code.py",
                                        "/home/me/train.py"};
    static const char *const others[] = {"/tmp/r5/" HASHED, "r4/" HASHED, "/r4/c" HASHED, "/r4/cr4.py"};
    struct stack_frame frames[4] = {0};
    unsigned char shown[4];
    for (size_t i = 0; i < 4; i++) {
        snprintf(frames[i].file, sizeof frames[i].file, "%s", files[i]);
        frames[i].is_python = 1;
    }
    assert_ptr_equal(frames_own(frames, 4), &frames[3]);
    assert_ptr_equal(frames_own(frames, 3), &frames[1]); /* autograd's thread */
    assert_int_equal(frames_choose(frames, 4, 3, shown), 3);
    assert_memory_equal(shown, ((unsigned char[]){1, 1, 0, 1}), 4);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(frames[1].file, sizeof frames[1].file, "%s", others[i]);
        assert_ptr_equal(frames_own(frames, 4), &frames[1]);
    }
}

TEST(no_frames_need_no_lines)
{
    unsigned char shown[1] = {7};
    assert_int_equal(frames_choose(NULL, 0, 8, shown), 0);
    assert_int_equal(shown[0], 7);
}

TEST(files_are_written_as_import_finds_them)
{
    static const struct {
        const char *file, *written;
    } rows[] = {
        {PACKAGES "torch/nn/functional.py", "torch/nn/functional.py"},
        {"/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"},
        {"/a/site-packages/b" PACKAGES "c.py", "c.py"},
        {"/home/me/train.py", "/home/me/train.py"},
        {"/home/me/site-packages.py", "/home/me/site-packages.py"},
        {"<string>", "<string>"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stack_frame frame = {.is_python = 1};
        snprintf(frame.file, sizeof frame.file, "%s", rows[i].file);
        assert_string_equal(frames_file(&frame), rows[i].written);
    }
}
