/* Programs that want a core dump of the driver for themselves: they get it, and cufence its report. As test_preload.c. */
#include "guarded.h"

#include <fcntl.h>
#include <glob.h>

#define LIGHTWEIGHT "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"
#define SURVIVED "context: CUDA_SUCCESS\n" /* the driver swallows the first fault */
#define RETURNED "context: CUDA_ERROR_ILLEGAL_ADDRESS\n"

static char folder[] = "/tmp/cufence-program-dump-XXXXXX"; /* the working folder of each case */
static char before[4096];

static int set_up(void **state)
{
    return getcwd(before, sizeof before) && mkdtemp(folder) ? chdir(folder) : -1;
}

static int tear_down(void **state)
{
    remove_all(folder);
    return chdir(before) != 0 || finish(state) != 0 ? -1 : 0;
}

/* There is one such file, with a dump that tells of the fault. */
static void expect_file(const char *pattern)
{
    char text[4096];
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc != 1) {
        complain("there is no file, or more than one", pattern);
        return;
    }
    if (explain(found.gl_pathv[0], text, sizeof text) != 0 || !strstr(text, "illegal address") ||
        !strstr(text, "kernels.cu:12 in store"))
        complain("its dump is not that of the fault", text);
    unlink(found.gl_pathv[0]);
    globfree(&found);
}

static void expect_report(void)
{
    expect_err("cufence: out-of-bounds WRITE of 4 bytes", "kernels.cu:12 in store");
    if (count_in(last.err, "cufence: the program's own core dump") != 1)
        complain("lines about the program's dump that are not", "1");
}

/* The driver, and with cufence the program too, see what was set before the driver was initialised. */
TEST_WITH(variables_that_it_sets_itself, set_up, tear_down)
{
    static const char story[] = "dump_by_variables own.%p.%t " LIGHTWEIGHT ",skip_abort",
                      seen[] = "1 own.%p.%t " LIGHTWEIGHT ",skip_abort\n";
    char natively[512], guarded[512];
    snprintf(natively, sizeof natively, "%s" SURVIVED, seen);
    snprintf(guarded, sizeof guarded, "%s" RETURNED, seen);
    expect_run(&by_dlsym, story, NO_PRELOAD, NULL, NULL, 0, natively);
    expect_file("own.[0-9]*.[0-9]*");
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, 1, guarded);
        expect_report();
        expect_file("own.[0-9]*.[0-9]*");
        if (strstr(last.err, "without memory"))
            complain("it got what it asked for", "");
    }
}

/* All is as the driver does it by default, but that it gets no memory. */
TEST_WITH(a_name_of_the_drivers, set_up, tear_down)
{
    run_guarded(&by_dlsym, "dump_by_variables '' skip_local_memory", NULL, 1, "1  skip_local_memory\n" RETURNED);
    expect_report();
    expect_err("without memory, which it asked for");
    expect_file("core_[0-9]*_*_[0-9]*.nvcudmp");
}

static void set_variables(const char *file)
{
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 1);
    setenv("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", "0", 1);
    setenv("CUDA_COREDUMP_FILE", file, 1);
}

static void unset_variables(void)
{
    unsetenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION");
    unsetenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP");
    unsetenv("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION");
    unsetenv("CUDA_COREDUMP_FILE");
}

/* explain=off leaves them to the driver. */
TEST_WITH(variables_from_outside, set_up, tear_down)
{
    set_variables("outer");
    expect_run(&by_dlsym, "beyond", NO_PRELOAD, NULL, NULL, 0, SURVIVED);
    expect_file("outer");
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    expect_report();
    expect_file("outer");
    run(&by_dlsym, "beyond", PRELOAD, "explain=off", NULL);
    expect_file("outer");
    run(&by_dlsym, "beyond", PRELOAD, "on_fault=abort", NULL);
    expect_status(128 + SIGABRT);
    expect_report();
    expect_file("outer");
    set_variables("nowhere/outer");
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    expect_err("could not be written to nowhere/outer: No such file or directory\n");
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "0", 1);
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    if (strstr(last.err, "own core dump"))
        complain("it wants none", "");
    unset_variables();
}

/* cufence cannot start: the driver writes the program's dump. */
TEST_WITH(without_cufences_dump, set_up, tear_down)
{
    set_variables("handed-back");
    expect_run(&by_dlsym, "beyond", PRELOAD, "known=/nowhere/names", NULL, 0, SURVIVED);
    expect_err("this process runs unguarded");
    expect_file("handed-back");
    unset_variables();
}

TEST_WITH(attributes, set_up, tear_down)
{
    static const char answers[] = "own.%p 7 63\n0 1 1\nroom: CUDA_ERROR_INVALID_VALUE\n"
                                  "size: CUDA_ERROR_INVALID_VALUE\nnone: CUDA_ERROR_INVALID_VALUE\n";
    char natively[512], guarded[512];
    snprintf(natively, sizeof natively, "%s" SURVIVED, answers);
    snprintf(guarded, sizeof guarded, "%s" RETURNED, answers);
    expect_run(&by_dlsym, "dump_by_attributes global own.%p", NO_PRELOAD, NULL, NULL, 0, natively);
    expect_file("own.[0-9]*");
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "dump_by_attributes global own.%p", NULL, 1, guarded);
        expect_report();
        expect_file("own.[0-9]*");
    }
    run_guarded(&by_dlsym, "dump_by_attributes context own.%p", NULL, 1, guarded);
    expect_report();
    expect_file("own.[0-9]*");
}

/* What a variable says cannot be changed. */
TEST_WITH(a_variable_wins_over_an_attribute, set_up, tear_down)
{
    setenv("CUDA_COREDUMP_FILE", "by-variable", 1);
    for (int i = 0; i < 2; i++) {
        expect_run(&by_dlsym, "dump_by_attributes global own", i ? PRELOAD : NO_PRELOAD, NULL, NULL, 2, "");
        expect_err("CUDA_ERROR_NOT_PERMITTED");
    }
    unsetenv("CUDA_COREDUMP_FILE");
}

static void *read_pipe(void *unused)
{
    return system("cat fifo > read") == 0 ? unused : folder;
}

TEST_WITH(pipes, set_up, tear_down)
{
    pthread_t reader;
    void *failed;
    set_variables("fifo");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, NULL), 0);
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    assert_int_equal(pthread_join(reader, &failed), 0);
    assert_null(failed);
    expect_report();
    expect_file("read");

    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    expect_report();
    expect_err("could not be written to fifo: nobody reads it\n");

    set_variables("| gzip > packed.gz");
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    expect_report();
    expect_file("packed.gz");
    set_variables("| exit 3");
    run_guarded(&by_dlsym, "beyond", NULL, 1, RETURNED);
    expect_err("could not be written to | exit 3: ");
    unset_variables();
}

TEST_CONCURRENTLY
