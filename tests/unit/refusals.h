/* What command lines of cufence are told that make no sense, as tests/golden/tools.expect has it. Include it once. */
#pragma once

#define TEST_OWN_MAIN
#include "support/program.h"

#include "support/golden.h"

/* What each command line is told, and its status. */
static void check_refusals(const char *name, const char *program, const char *const (*lines)[6], size_t count)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = run_with(program, lines[i]);
        fputs("cufence", out);
        for (size_t k = 0; lines[i][k]; k++)
            fprintf(out, " '%s'", lines[i][k]);
        fprintf(out, " -> %d\n%s", WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : -1, outcome.err);
        assert_string_equal(outcome.out, "");
    }
    fclose(out);
    golden_check(GOLDEN "tools.expect", name, text);
    free(text);
}
