/* What test programs share that compare findings with tests/golden/findings.expect. Include it once. */
#pragma once

#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "base/text.h"

#include "finding/json.h"
#include "finding/report.h"
#include "rerun_stories.h"

static const struct finding_source origin = {.pid = 4242, .rank = -1, .device = 0};

static size_t frames_of(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    (void)from;
    assert_true(max >= 2);
    out[0] = (struct stack_frame){.is_python = 1, .function = "forward", .file = "model.py", .line = (int)stack};
    out[1] = (struct stack_frame){.is_python = 1, .function = "step", .file = "train.py", .line = 40};
    return 2;
}

/* Adds a text, and frees it. The version of today is not part of it. */
static void put(FILE *out, char *text)
{
    static const char version[] = "\"cufence\":\"" VERSION_TEXT "\"";
    assert_non_null(text);
    const char *at = strstr(text, version);
    if (at)
        fprintf(out, "%.*s\"cufence\":\"VERSION\"", (int)(at - text), text);
    fputs(at ? at + strlen(version) : text, out);
    free(text);
}

/* Frees the finding. */
static void check_finding(const char *name, struct finding *finding)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    put(out, finding_text(finding));
    fputc('\n', out);
    put(out, finding_json(finding));
    put(out, finding_annotation(finding, "/home/me/repo"));
    fclose(out);
    finding_free(finding);
    golden_check(GOLDEN "findings.expect", name, text);
    free(text);
}

/* The finding of a fact, by the function of its kind. */
#define CHECK(kind, name, ...)                                                                                                 \
    do {                                                                                                                       \
        struct finding made;                                                                                                   \
        finding_of_##kind(&made, __VA_ARGS__, &origin);                                                                        \
        check_finding(name, &made);                                                                                            \
    } while (0)
