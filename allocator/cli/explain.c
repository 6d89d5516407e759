/* `cufence explain`: explains GPU core dumps, also of programs that ran without cufence. Needs neither a GPU nor CUDA. */
#include "command_line.h"
#include "bundle_reader.h"

#include "analysis/dump/coredump.h"
#include "analysis/dump/standing.h"
#include "analysis/verdict/launches.h"
#include "analysis/verdict/cause.h"
#include "base/text.h"
#include "finding/json.h"
#include "finding/report.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES = 12 }; /* printed without --all-threads */

struct wishes {
    int is_json, is_whole;
    size_t places;
};

/* ---- what is said ---- */

#define complain(...) arguments_complain("explain", 0, __VA_ARGS__)
#define NO_MEMORY "cufence: the host has no memory for the report\n"

/* `known`: what the program knew, NULL if there is nothing of that. */
static const struct rerun_result *rerun_of(const struct snapshot *known)
{
    return known ? &known->rerun : NULL;
}

static const char *last_line(const char *text)
{
    const char *end = strrchr(text, '\n'), *before = end ? memrchr(text, '\n', (size_t)(end - text)) : NULL;
    return before ? before + 1 : text;
}

/* *cause: what the dump tells of the address, if the program has not kept that. */
static void diagnose(const struct coredump *dump, const struct evidence *evidence, const struct snapshot *known,
                     struct diagnosis *diagnosis, struct origin *cause)
{
    fault_diagnose_rerun(evidence, rerun_of(known), facts_memory(known), diagnosis);
    if (!diagnosis->cause)
        cause_in_dump(dump, diagnosis, cause);
}

/* Prints the report with its summary line last, after the list of threads. */
static void say_text(const char *path, const struct coredump *dump, const struct evidence *evidence,
                     const struct standing *standing, const struct snapshot *known, const struct wishes *wishes)
{
    const struct finding_source origin = facts_source(known, (int)evidence->device);
    const struct evidence_stop *stop = NULL;
    struct diagnosis diagnosis;
    struct origin cause;
    struct finding finding;
    const char *summary = "";
    char *report = NULL;
    static int has_said; /* the command has one thread */
    fputs(has_said++ ? "\n" : "", stdout);
    text_put_line(stdout, "%s", path);
    if (evidence->stop_count) {
        diagnose(dump, evidence, known, &diagnosis, &cause);
        stop = fault_stop(&diagnosis);
        finding_of_fault(&finding, &diagnosis, rerun_of(known), &origin);
        file_source("explain", &finding);
        report = finding_text(&finding);
        finding_free(&finding);
        summary = report ? last_line(report) : NULL;
        if (report)
            fwrite(report, 1, (size_t)(summary - report), stdout);
    } else {
        text_put_line(stdout, "cufence: no exception is in the dump of GPU %d (%s)%s", origin.device, evidence->device_name,
                      standing->is_stuck ? "; all threads wait" : "");
        putchar('\n');
    }
    char *text = standing_text(standing, stop, wishes->places);
    fputs(text ? text : NO_MEMORY, stdout);
    fputs(summary ? summary : NO_MEMORY, stdout);
    free(text);
    free(report);
}

/* The report of a fault, or of a hang, that has happened somewhere else. */
static json_t *finding_of(const struct evidence *evidence, const struct diagnosis *diagnosis, const struct standing *standing,
                          const struct snapshot *known)
{
    const struct finding_source origin = facts_source(known, (int)evidence->device);
    struct stuck_fact stuck = {.standing = standing, .memory = facts_memory(known)};
    struct finding finding;
    if (evidence->stop_count) {
        finding_of_fault(&finding, diagnosis, rerun_of(known), &origin);
    } else if (standing->is_stuck) {
        stuck_evidence(&stuck, evidence);
        finding_of_stuck(&finding, &stuck, &origin);
    } else {
        return json_pack("{siss}", "schema", JSON_SCHEMA, "cufence", VERSION_TEXT);
    }
    json_t *json = json_table_write_at(&finding_facts, &finding, finding.now_ns);
    finding_free(&finding);
    if (!known)
        json_object_del(json, "process");
    return json;
}

static void say_json(const char *path, const struct coredump *dump, const struct evidence *evidence,
                     const struct standing *standing, const struct snapshot *known, const struct wishes *wishes)
{
    struct diagnosis diagnosis;
    struct origin cause;
    diagnose(dump, evidence, known, &diagnosis, &cause);
    const struct evidence_stop *stop = evidence->stop_count ? fault_stop(&diagnosis) : NULL;
    json_t *finding = finding_of(evidence, &diagnosis, standing, known);
    json_object_set_new(finding, "dump", text_to_json(path));
    json_object_set_new(finding, "standing", standing_json(standing, stop, wishes->places));
    if (!text_put_json(stdout, finding, JSON_COMPACT) && !ferror(stdout))
        complain("%s: the host has no memory for the report", path);
}

/* reader: the bundle that the dump is of; NULL: none. */
static cufence_status explain_bytes(const char *path, const struct file_bytes *bytes, const struct bundle_reader *reader,
                                    const struct wishes *wishes, struct problem *problem)
{
    struct evidence *evidence = NULL, *again = NULL;
    struct standing *standing = NULL;
    struct coredump dump;
    struct snapshot *known = reader ? reader->facts : NULL;
    struct problem why;
    if (known && known->rerun.outcome == RERUN_FAULTED && reader->second.at &&
        evidence_from_coredump(reader->second.at, reader->second.size, &again, &why) != CUFENCE_OK)
        complain("%s: of the second launch: %s", path, why.text);
    if (known)
        known->rerun.evidence = again;
    cufence_status status = coredump_open(bytes->at, bytes->size, &dump, problem);
    if (status == CUFENCE_OK)
        status = evidence_read(&dump, &evidence, problem);
    if (known && evidence)
        boxes_place(evidence, &known->memory);
    if (status == CUFENCE_OK)
        status = standing_read(&dump, &standing, problem);
    if (status == CUFENCE_OK)
        (wishes->is_json ? say_json : say_text)(path, &dump, evidence, standing, known, wishes);
    evidence_free(again);
    standing_free(standing);
    coredump_close(&dump);
    evidence_free(evidence);
    return status;
}

/* Whether a file in a folder, which could not be explained, is a dump or may be one, as what cannot be read or unpacked. */
static int may_be_dump(const char *path, const struct file_bytes *bytes)
{
    struct stat file;
    Elf64_Ehdr header;
    if (strstr(strrchr(path, '/'), ".nvcudmp")) /* the driver's own name for it */
        return 1;
    if (bytes->at && bytes->size >= sizeof header) {
        memcpy(&header, bytes->at, sizeof header);
        return !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_type == ET_CORE && header.e_machine == COREDUMP_MACHINE;
    }
    if (bytes->at || stat(path, &file) != 0)
        return !bytes->at && errno != ENOENT;
    return S_ISREG(file.st_mode) ? file.st_size > 0 : S_ISDIR(file.st_mode) && access(path, R_OK | X_OK) != 0;
}

/* The functions that explain something return 0 if it is no dump or could not be read, with a message. */

/* is_listed: it was found in a folder, and returns -1 if it is another's. */
static int explain_file(const char *path, const struct wishes *wishes, int is_listed)
{
    struct problem problem;
    struct file_bytes bytes;
    int is_ok = file_load(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), SIZE_MAX, &bytes, &problem) && /* it may be a pipe */
                explain_bytes(path, &bytes, NULL, wishes, &problem) == CUFENCE_OK;
    if (!is_ok && is_listed && !may_be_dump(path, &bytes))
        is_ok = -1;
    if (!is_ok)
        complain("%s: %s", path, problem.text);
    file_forget(&bytes);
    return is_ok;
}

static int explain_bundle(const char *path, const struct wishes *wishes)
{
    struct problem problem;
    struct bundle_reader reader;
    cufence_status status = bundle_open(path, &reader, &problem);
    if (status == CUFENCE_OK && !reader.dump.at)
        status = problem_set(&problem, CUFENCE_ERROR_SYSTEM, "%s",
                             reader.unread.text[0] ? reader.unread.text
                                                   : "it has no core dump; a launch that did not fault has none");
    else if (status == CUFENCE_OK && reader.unread.text[0])
        complain("%s: %s", path, reader.unread.text);
    char *dump = NULL;
    if (status == CUFENCE_OK && asprintf(&dump, "%s/%s", path, reader.dump_name) >= 0)
        status = explain_bytes(dump, &reader.dump, &reader, wishes, &problem);
    free(dump);
    if (status != CUFENCE_OK)
        complain("%s: %s", path, problem.text);
    bundle_close(&reader);
    return status == CUFENCE_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Explains every dump and every bundle in a folder, ordered by name. Skips the files of others. */
static int explain_folder(const char *path, const struct wishes *wishes)
{
    struct dirent **entries;
    int explained = 0, failed = 0, count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0)
        return complain("%s: %s", path, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *file = NULL;
        if (asprintf(&file, "%s/%s", path, entries[i]->d_name) >= 0) {
            int is_ok = bundle_is(file, 0) ? explain_bundle(file, wishes) : explain_file(file, wishes, 1);
            explained += is_ok > 0;
            failed += is_ok == 0;
            free(file);
        }
        free(entries[i]);
    }
    free(entries);
    if (!explained && !failed)
        complain("%s: it has no GPU core dump, plain or gzipped", path);
    return explained && !failed;
}

/* Returns the folder of a bundle that the path names, or the dump of; NULL if it is none. The caller frees it. */
static char *bundle_of(const char *path)
{
    char *folder = strdup(path), *name = folder ? strrchr(folder, '/') : NULL;
    const char *last = name ? name + 1 : path;
    if (folder && (!strcmp(last, BUNDLE_DUMP ".gz") || !strcmp(last, BUNDLE_DUMP)))
        strcpy(name ? name + (name == folder) : folder, name ? "" : ".");
    if (folder && bundle_is(folder, 0))
        return folder;
    free(folder);
    return NULL;
}

static int explain(const char *path, const struct wishes *wishes)
{
    struct stat status;
    char *bundle = bundle_of(path);
    int is_ok = bundle                                                ? explain_bundle(bundle, wishes)
                : stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? explain_folder(path, wishes)
                                                                      : explain_file(path, wishes, 0);
    free(bundle);
    return is_ok;
}

/* ---- the command ---- */

static const struct argument arguments[] = {
    {"json", NULL, "one line of JSON for each dump; see docs/explain.md", .offset = offsetof(struct wishes, is_json)},
    {"all-threads", NULL, "every place, not only the first 12", .offset = offsetof(struct wishes, is_whole)},
};

static int run(int argc, char **argv)
{
    struct wishes wishes = {0};
    int is_ok = 1, status;
    if (!arguments_read(&explain_command, argc, argv, &wishes, &status))
        return status;
    wishes.places = wishes.is_whole ? SIZE_MAX : PLACES;
    for (int i = optind; i < argc; i++)
        is_ok &= explain(argv[i], &wishes);
    return is_ok ? 0 : 1;
}

const struct command explain_command = {
    .name = "explain",
    .help = "explain a GPU core dump: what faulted, where each thread was",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "FILE|FOLDER...",
    .least = 1,
    .most = -1,
    .missing = "no file given; `cufence explain --help` says how to get one",
    .about = "Explains a GPU core dump, also one of a program that ran without cufence: the exception, its kernel, source line "
             "and instruction, the addresses of its lanes; then where all threads were, grouped by place, and which launches "
             "ran, with their parameters. Needs no GPU and no CUDA. Given a folder, it explains every dump in it, and those of "
             "the launches that keep= has kept there.",
    .examples = "To get a dump: CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1\n"
                "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1, and of a program that hangs:\n"
                "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, then write into the pipe that it names.\n\n"
                "Example: cufence explain core_1700000000_host_4242.nvcudmp\n",
};
