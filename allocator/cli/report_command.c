/* cufence report: the findings of one process or of many, from their JSON files, as one list. */
#include "command_line.h"
#include "findings_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define complain(status, ...) arguments_complain("report", status, __VA_ARGS__)
#define PROCESSES_NAMED 4

static void print_processes(json_t *processes)
{
    size_t count = json_array_size(processes);
    char who[256];
    for (size_t i = 0; i < count && i < PROCESSES_NAMED; i++) {
        finding_who(json_array_get(processes, i), who, sizeof who);
        fputs("     ", stdout);
        text_put(stdout, who);
        putchar('\n');
    }
    if (count > PROCESSES_NAMED)
        printf("     and %zu more\n", count - PROCESSES_NAMED);
}

/* Nothing if there is no text. */
static void print_line(const char *what, const char *text)
{
    if (!*text)
        return;
    printf("\n   %s", what);
    text_put(stdout, text);
}

static void print_finding(const struct collected_finding *found, size_t number, int has_baseline)
{
    char place[512], tensor[256];
    const struct finding *facts = found->facts;
    finding_place(facts, place, sizeof place);
    printf("%zu. %s", number, has_baseline ? "new: " : "");
    text_put(stdout, facts->headline[0] ? facts->headline : facts->kind);
    print_line("", place);
    finding_tensor(found, tensor, sizeof tensor);
    print_line("its buffer is ", tensor);
    print_line("name: ", facts->name);
    printf("\n   %zu report%s%s\n", found->count, plural(found->count), json_array_size(found->processes) ? ":" : "");
    print_processes(found->processes);
}

static size_t count_known(const struct collected *collected, enum known as)
{
    size_t count = 0;
    for (size_t i = 0; i < collected->known_count; i++)
        count += collected->known[i].known == as;
    return count;
}

static void print_text(const struct collected *collected, int has_baseline, int is_whole)
{
    char guarded[160];
    size_t suppressed = count_known(collected, KNOWN_SUPPRESSED), baseline = count_known(collected, KNOWN_BASELINE);
    for (size_t i = 0; i < collected->count; i++)
        print_finding(&collected->findings[i], i + 1, has_baseline);
    if (!is_whole) {
        printf("NO VERDICT: some of the input could not be read (see above)\n");
        return;
    }
    collected_say_guarded(collected, guarded, sizeof guarded);
    printf("SUMMARY: cufence: %zu %sfinding%s in %zu report%s", collected->count, has_baseline ? "new " : "",
           plural(collected->count), collected->reports, plural(collected->reports));
    if (baseline)
        printf(", %zu in the baseline", baseline);
    if (suppressed)
        printf(", %zu suppressed", suppressed);
    printf("%s\n", guarded);
}

static int put_lines(json_t *lines, FILE *out)
{
    json_t *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        if (!text_put_json(out, json_incref(line), JSON_COMPACT))
            return 0;
    }
    return 1;
}

static int put_findings(const struct collected_finding *list, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        if (!text_put_json(out, collected_json(&list[i]), JSON_COMPACT))
            return 0;
    return 1;
}

static int face_json(const struct collected *collected, FILE *out)
{
    return put_lines(collected->runs, out) && put_findings(collected->findings, collected->count, out) &&
           put_findings(collected->known, collected->known_count, out) && put_lines(collected->guarded, out);
}

static const struct {
    const char *option;
    int (*write)(const struct collected *collected, FILE *out);
} faces[] = {{"--html", face_html}, {"--sarif", face_sarif}, {"--json", face_json}};
enum { FACES = sizeof faces / sizeof *faces };

struct wanted {
    const char *paths[FACES]; /* "-" is standard output, for one document */
    struct known_names names;
    int is_gate;
};

/* Returns 0, or the exit status after a message. */
static int check_paths(const struct wanted *wanted)
{
    for (int i = 0; i < FACES; i++) {
        const char *path = wanted->paths[i];
        if (path && !*path)
            return complain(STATUS_USAGE, "%s: the file name \"\" is empty", faces[i].option);
        for (int k = 0; path && k < i; k++)
            if (wanted->paths[k] && (!strcmp(wanted->paths[k], path) || files_are_same(wanted->paths[k], path)))
                return complain(STATUS_USAGE, "%s %s and %s %s are the same file; one would overwrite the other",
                                faces[k].option, wanted->paths[k], faces[i].option, path);
    }
    return 0;
}

/* Returns 0, or the exit status after a message. */
static int write_faces(const struct wanted *wanted, const struct collected *collected)
{
    struct document document;
    int status = 0;
    for (int i = 0; i < FACES; i++) {
        const char *path = wanted->paths[i];
        if (!path)
            continue;
        int is_open = document_open(&document, path);
        if (!is_open || !document_close(&document, faces[i].write(collected, document.out)))
            status = complain(is_open ? STATUS_FAILED : STATUS_USAGE, "%s %s: %s", faces[i].option, path,
                              errno ? strerror(errno) : "the host is out of memory");
    }
    return status;
}

static int take_known(const struct given *given, void *field)
{
    return known_read(field, given->value) == CUFENCE_OK
               ? 0
               : complain(STATUS_USAGE, "--%s: %s", given->argument->name, error_detail());
}

/* The documents, the list for people, and the exit status. */
static int conclude(struct wanted *wanted, const struct collected *collected, int is_whole)
{
    int is_stdout = 0;
    for (int i = 0; i < FACES; i++)
        is_stdout |= wanted->paths[i] && !strcmp(wanted->paths[i], "-");
    int status = is_whole ? write_faces(wanted, collected) : STATUS_NO_VERDICT;
    if (!is_stdout)
        print_text(collected, wanted->names.has_run, is_whole);
    if (status != 0)
        return status;
    if (!wanted->is_gate)
        return 0;
    return collected->count                                                                      ? STATUS_FOUND
           : collected_is_known(collected) && !collected->allocations && !collected->known_count ? STATUS_NO_VERDICT
                                                                                                 : 0;
}

static const struct argument arguments[] = {
    {"html", "FILE", "one page of HTML, with all that it needs in it", .offset = offsetof(struct wanted, paths[0])},
    {"sarif", "FILE", "SARIF 2.1.0, for code hosts and editors; paths below the current folder become relative to it",
     .offset = offsetof(struct wanted, paths[1])},
    {"json", "FILE", "JSON Lines: the first report of each finding, with `count` and `processes`",
     .offset = offsetof(struct wanted, paths[2])},
    {"known", "FILE",
     "leave out the findings with these names, one a line; `pattern:` and a glob fit several; # begins a comment. Or those of "
     "an earlier run: of its json=FILE, or of `cufence report --json` or `cufence hunt --json`",
     offsetof(struct wanted, names), .take = take_known},
    {"exit-code", NULL, "exit with 86 if a finding is left, and with 87 if nothing was guarded",
     .offset = offsetof(struct wanted, is_gate)},
};

static int run(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct collected collected = {.names = &wanted.names};
    int is_whole = 1, status;
    if (arguments_read(&report_command, argc, argv, &wanted, &status) && (status = check_paths(&wanted)) == 0) {
        for (int i = optind; i < argc; i++)
            is_whole &= collected_read(&collected, "report", argv[i]);
        status = conclude(&wanted, &collected, is_whole);
    }
    collected_free(&collected);
    known_free(&wanted.names);
    return status;
}

const struct command report_command = {
    .name = "report",
    .help = "merge findings of many processes: a list, HTML page or SARIF",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "FILE...",
    .least = 1,
    .most = -1,
    .missing = "no file given; run the program with --set json=FILE to get one",
    .about = "Merges the findings of many processes into one list: each once, with how often and by whom it was reported. The "
             "files are those of json=FILE and of `cufence explain --json`; - is standard input.\n"
             "For each document, - is standard output, which then has no list for people. If a file cannot be read there is no "
             "verdict, and no document is written.",
    .examples = "Example: cufence run --json found.%r.json -- torchrun train.py\n"
                "         cufence report --html found.html found.*.json\n",
};
