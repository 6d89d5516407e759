/* A program that is run to its end, and what it has said. Include it once. */
#pragma once

#include "support/test.h"

struct outcome {
    int status; /* of waitpid */
    size_t size;
    char out[32768], err[8192];
};

/* Of the program to be: variables set in front of it, its standard input, and a file for its standard output ("": it is
 * closed). */
static const char *const *variables;
static FILE *input;
static const char *output;

static inline int forget(void **state)
{
    variables = NULL;
    output = NULL;
    if (input)
        fclose(input);
    input = NULL;
    return 0;
}

static size_t read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    fclose(file);
    return got;
}

/* Starts a program with arguments up to a NULL, without the variables that lead cufence. */
static pid_t start(const char *program, const char *const *arguments, FILE *out, FILE *err)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    char *argv[16] = {(char[]){"cufence"}};
    for (size_t i = 0; arguments[i] && i < 14; i++)
        argv[i + 1] = strdup(arguments[i]);
    static const char *const names[] = {"LD_PRELOAD", "PYTHONPATH", "CUFENCE_OPTIONS", "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    for (size_t i = 0; variables && variables[i]; i++)
        putenv(strdup(variables[i]));
    if (input)
        dup2(fileno(input), STDIN_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    if (output && !*output)
        close(STDOUT_FILENO);
    else
        dup2(output ? open(output, O_WRONLY | O_CLOEXEC) : fileno(out), STDOUT_FILENO);
    alarm(300);
    execv(program, argv);
    _exit(99);
}

static struct outcome run_with(const char *program, const char *const *arguments)
{
    struct outcome outcome;
    FILE *out = tmpfile(), *err = tmpfile();
    assert_non_null(out);
    assert_non_null(err);
    pid_t child = start(program, arguments, out, err);
    assert_int_equal(waitpid(child, &outcome.status, 0), child);
    outcome.size = read_back(out, outcome.out, sizeof outcome.out);
    read_back(err, outcome.err, sizeof outcome.err);
    return outcome;
}

static void expect_exit(const struct outcome *outcome, int status)
{
    if (!WIFEXITED(outcome->status) || WEXITSTATUS(outcome->status) != status)
        print_error("status 0x%x, stderr: %s", (unsigned)outcome->status, outcome->err);
    assert_true(WIFEXITED(outcome->status));
    assert_int_equal(WEXITSTATUS(outcome->status), status);
}
