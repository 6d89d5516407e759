/* cufence report: the findings of one process or of many, from their JSON files, as one list. */
#include "arguments.h"
#include "cli.h"
#include "collected.h"
#include "faces.h"
#include "words.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define PROCESSES_NAMED 4

/* Control characters come from the program, and must not reach a terminal. */
static void print_line(const char *indent, const char *text)
{
    fputs(indent, stdout);
    for (; *text; text++)
        putchar(iscntrl((unsigned char)*text) ? '?' : *text);
    putchar('\n');
}

static void print_processes(json_t *processes)
{
    size_t count = json_array_size(processes);
    char who[256];
    for (size_t i = 0; i < count && i < PROCESSES_NAMED; i++) {
        finding_who(json_array_get(processes, i), who, sizeof who);
        print_line("     ", who);
    }
    if (count > PROCESSES_NAMED)
        printf("     and %zu more\n", count - PROCESSES_NAMED);
}

static void print_text(const struct collected *collected)
{
    char place[512], tensor[256];
    for (size_t i = 0; i < collected->count; i++) {
        const struct collected_finding *found = &collected->findings[i];
        const char *headline = finding_text_of(found->first, NULL, "headline");
        finding_place(found->first, place, sizeof place);
        printf("%zu. ", i + 1);
        print_line("", headline ? headline : finding_text_of(found->first, NULL, "kind"));
        if (place[0])
            print_line("   ", place);
        finding_tensor(found->first, tensor, sizeof tensor);
        if (tensor[0])
            print_line("   its buffer is ", tensor);
        printf("   %zu report%s%s\n", found->count, found->count == 1 ? "" : "s", json_array_size(found->processes) ? ":" : "");
        print_processes(found->processes);
    }
    printf("SUMMARY: cufence: %zu finding%s in %zu report%s\n", collected->count, collected->count == 1 ? "" : "s",
           collected->reports, collected->reports == 1 ? "" : "s");
}

int face_json(const struct collected *collected, FILE *out)
{
    for (size_t i = 0; i < collected->count; i++) {
        json_t *copy = collected_json(&collected->findings[i]);
        if (!copy)
            return 0;
        json_dumpf(copy, out, JSON_COMPACT);
        fputc('\n', out);
        json_decref(copy);
    }
    return 1;
}

typedef int face(const struct collected *collected, FILE *out);

/* "-" is standard output. */
static int write_face(face *write, const struct collected *collected, const char *path)
{
    FILE *out = strcmp(path, "-") ? fopen(path, "we") : stdout;
    errno = out ? 0 : errno;
    int is_well = out && write(collected, out) && !ferror(out);
    if (out && out != stdout)
        is_well &= fclose(out) == 0;
    if (!is_well)
        fprintf(stderr, "cufence report: %s: %s\n", path, errno ? strerror(errno) : "the host is out of memory");
    return is_well;
}

static int usage(void)
{
    printf("usage: cufence report [--html FILE] [--sarif FILE] [--json FILE] FILE...\n\n"
           "Merges the findings of many processes into one list: each once, with how often\n"
           "and by whom it was reported. The files are those of json=FILE and of\n"
           "`cufence explain --json`; - is standard input.\n\n"
           "  --html FILE   one page of HTML, with all that it needs in it\n"
           "  --sarif FILE  SARIF 2.1.0, for code hosts and editors; paths below the\n"
           "                current folder become relative to it\n"
           "  --json FILE   JSON Lines: the first report of each finding, with `count` and\n"
           "                `processes`\n\n"
           "For each of these, - is standard output, which then has no list for people.\n\n"
           "Example: cufence run --json found.%%r.json -- torchrun train.py\n"
           "         cufence report --html found.html found.*.json\n\n"
           "Exit status: 0, 1 if a file could not be read or written, 2 for a wrong command\n"
           "line.\n");
    return 0;
}

enum { HTML, SARIF, JSON, FACES };

static const struct argument known[FACES] = {
    [HTML] = {"html", "found.html", "one page that needs nothing else", ARGUMENT_FILE},
    [SARIF] = {"sarif", "found.sarif", "SARIF 2.1.0", ARGUMENT_FILE},
    [JSON] = {"json", "found.json", "JSON Lines", ARGUMENT_FILE},
};

const struct arguments report_arguments = {"report", known, FACES, ARGUMENT_FILE, 0, 0};

int cli_report(int argc, char **argv)
{
    static face *const faces[FACES] = {[HTML] = face_html, [SARIF] = face_sarif, [JSON] = face_json};
    const char *paths[FACES] = {NULL};
    struct collected collected = {0};
    int option, is_well = 1, is_stdout_taken = 0;
    while ((option = arguments_next(&report_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option < 0)
            return option == ARGUMENTS_HELP ? usage() : CLI_USAGE;
        paths[option] = optarg;
        is_stdout_taken += !strcmp(optarg, "-");
    }
    if (optind == argc) {
        fprintf(stderr, "cufence report: no file given; run the program with --set json=FILE to get one\n");
        return CLI_USAGE;
    }
    if (is_stdout_taken > 1) {
        fprintf(stderr, "cufence report: standard output (-) takes one document; give the others a file\n");
        return CLI_USAGE;
    }
    for (int i = optind; i < argc; i++)
        is_well &= collected_read(&collected, "report", argv[i]);
    for (int i = 0; i < FACES; i++)
        is_well &= !paths[i] || write_face(faces[i], &collected, paths[i]);
    if (!is_stdout_taken) {
        FILE *terminal = words_hold();
        print_text(&collected);
        words_release(terminal);
    }
    collected_free(&collected);
    return is_well ? 0 : 1;
}
