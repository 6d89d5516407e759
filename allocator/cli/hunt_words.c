/* What a hunt has found, for people and for programs. */
#include "hunt.h"
#include "command_line.h"

#include "finding/parts.h"

#include <cufence.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

enum { INDENT = 5, KEY = 14, LONGEST = 2048 };

const struct mode modes[MODES] = {
    {"end", "side=end", "accesses past the end of a buffer"},
    {"start", "side=start", "accesses before the start of a buffer"},
    {"align", "side=end,align=auto", "accesses to the slack that align=16 leaves"},
    {"strict", "uaf=strict", "accesses to freed buffers"},
    {"fresh", "fill=nan,nan=report,side=start", "kernels that use unwritten floats"},
};

/* ---- one finding ---- */

/* "overrun at kernels.cu:12 in store" */
static void add_headline(char *out, const struct finding *finding)
{
    const char *call = finding->called.call;
    char place[LONGEST];
    finding_place(finding, place, sizeof place);
    part_append(out, LONGEST, "%s%s%s", finding->kind, call ? " by " : "", call ? call : "");
    if (place[0] || call)
        part_append(out, LONGEST, " %s", place[0] ? place : "at an unknown place");
}

/* In the words of the report. */
static void add_detail(char *out, const struct finding *finding)
{
    const cufence_buffer *buffer = finding->buffer.buffer;
    const char *meaning = finding->where.has_no_buffer ? finding->where.stop.exception.meaning : NULL;
    part_append(out, LONGEST, "%s", finding->reason ? finding->reason : meaning ? meaning : finding->headline);
    if (buffer && !finding->reason)
        part_append(out, LONGEST, "; the buffer has %" PRIu64 " bytes", buffer->size);
}

static void put_place(FILE *out, const char *key, const struct stack_frame *frames, size_t count)
{
    char text[LONGEST] = "";
    frames_place(frames, count, text, sizeof text);
    if (!text[0])
        return;
    text_make_plain(text);
    fprintf(out, "%*s%-*s", INDENT, "", KEY, key);
    fprintf(out, "%s\n", text);
}

static void put_modes(FILE *out, unsigned bits)
{
    const char *separator = "";
    for (unsigned mode = 0; mode < MODES; mode++) {
        if (!(bits & 1u << mode))
            continue;
        fprintf(out, "%s%s", separator, modes[mode].name);
        separator = ", ";
    }
}

static void tell_finding(FILE *out, size_t number, const struct collected_finding *finding)
{
    const struct finding *facts = finding->facts;
    const struct fault_launch *launch = facts->launch.launch;
    const struct buffer_fact *buffer = &facts->buffer;
    char headline[LONGEST] = "", detail[LONGEST] = "";
    add_headline(headline, facts);
    add_detail(detail, facts);
    text_make_plain(headline);
    text_make_plain(detail);
    fprintf(out, "\n%3zu  ", number);
    fprintf(out, "%s\n", headline);
    fprintf(out, "%*s", INDENT, "");
    words_print(out, detail, INDENT);
    if (launch)
        put_place(out, "launched at", launch->frames, launch->frame_count);
    put_place(out, "allocated at", buffer->allocated.frames, buffer->allocated.count);
    put_place(out, "freed at", buffer->freed.frames, buffer->freed.count);
    fprintf(out, "%*s%-*s", INDENT, "", KEY, "found by");
    put_modes(out, finding->tags);
    fprintf(out, finding->count > 1 ? " (%zu reports)\n" : "\n", finding->count);
}

/* ---- the runs ---- */

static size_t count_tags(const struct collected_finding *list, size_t length, unsigned mode)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += (list[i].tags >> mode) & 1;
    return count;
}

size_t merged_by(const struct collected *merged, unsigned mode)
{
    return count_tags(merged->findings, merged->count, mode);
}

void run_end_print(FILE *out, const struct run *run)
{
    if (WIFSIGNALED(run->status))
        fprintf(out, "killed by signal %d (%s)", WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
    else
        fprintf(out, "exit status %d", WEXITSTATUS(run->status));
}

static int is_without_finding(const struct collected *merged, unsigned mode)
{
    return !merged_by(merged, mode) && !count_tags(merged->known, merged->known_count, mode);
}

int run_has_failed(const struct run *run, const struct collected *merged, unsigned mode)
{
    return run->is_started && !run->is_ended && run->status != 0 && is_without_finding(merged, mode);
}

/* "1, 3": the numbers in the list of what a mode has found. */
static void put_numbers(FILE *out, const struct collected *merged, unsigned mode)
{
    const char *separator = "";
    for (size_t i = 0; i < merged->count; i++) {
        if (!(merged->findings[i].tags & 1u << mode))
            continue;
        fprintf(out, "%s%zu", separator, i + 1);
        separator = ", ";
    }
    if (!*separator)
        fputc('-', out);
}

static void tell_runs(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    fprintf(out, "\n%-7s %-48s %s\n", "mode", "looks for", "found");
    for (unsigned mode = 0; mode < MODES; mode++) {
        if (!(plan->modes & 1u << mode))
            continue;
        fprintf(out, "%-7s %-48s ", modes[mode].name, modes[mode].looks_for);
        if (!runs[mode].is_started)
            fputs("not run", out);
        else if (runs[mode].is_ended && !merged_by(merged, mode))
            fputs("ended by a signal", out);
        else if (!runs[mode].tally.counts[TALLY_GUARDED] && !merged_by(merged, mode))
            fputs("nothing was guarded", out);
        else
            put_numbers(out, merged, mode);
        fputc('\n', out);
    }
}

struct hunt_verdict hunt_judge(const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    struct hunt_verdict verdict = {0};
    for (unsigned mode = 0; mode < MODES; mode++) {
        const struct run *run = &runs[mode];
        const unsigned *counts = run->tally.counts;
        int is_over = run->is_started && !run->is_ended;
        verdict.runs += (unsigned)run->is_started;
        verdict.cut |= (unsigned)(!run->is_started || run->is_ended) << mode & plan->modes;
        verdict.left |= (unsigned)(run->left > 0) << mode;
        verdict.unguarded |= (unsigned)(is_over && (!counts[TALLY_GUARDED] || counts[TALLY_UNGUARDED])) << mode;
        verdict.silent |= (unsigned)(is_over && counts[TALLY_SAID] < counts[TALLY_CONTEXT]) << mode;
        verdict.blind |= (unsigned)(is_over && counts[TALLY_BLIND]) << mode;
        verdict.untold |= (unsigned)(counts[TALLY_FOUND] && is_without_finding(merged, mode)) << mode;
        verdict.failed |= (unsigned)run_has_failed(run, merged, mode) << mode;
    }
    verdict.unguarded *= (unsigned)plan->is_guarded_required;
    if (merged->unreadable && !verdict.untold)
        verdict.silent |= plan->modes;
    verdict.is_whole = !(verdict.cut | verdict.left | verdict.silent | verdict.blind | verdict.untold);
    verdict.is_complete = verdict.is_whole && !verdict.unguarded && !verdict.failed;
    return verdict;
}

/* ---- all of it ---- */

/* What is missing where nothing was found: the first of the reasons. */
static void tell_verdict(FILE *out, const struct hunt_verdict *verdict)
{
    const struct {
        unsigned modes;
        const char *what, *behind; /* NULL: the modes are not named */
    } reasons[] = {
        {verdict->untold, "something was found in ", ", but no report of it has come to this list"},
        {verdict->cut, "not every run was made to its end", NULL},
        {verdict->unguarded, "nothing was guarded in ",
         ", or not in all processes, and they have said why, unless they lacked LD_PRELOAD"},
        {verdict->left, "processes that the program started still run in ", "; let the program wait for them, or stop them"},
        {verdict->silent, "processes that used CUDA have not said at their end what was guarded in ",
         ": they were killed, or ended by _exit or exec"},
        {verdict->blind, "not everything could be seen or written in ", ", and the program's processes have said why"},
        {verdict->failed, "the program failed by itself", NULL},
    };
    if (verdict->is_complete)
        fputs(
            "Each process that was seen to use CUDA has said at its end how many of its allocations were guarded; one without\n"
            "LD_PRELOAD is not seen.\n",
            out);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!reasons[i].modes)
            continue;
        fprintf(out, "Inconclusive: %s", reasons[i].what);
        if (reasons[i].behind)
            put_modes(out, reasons[i].modes);
        fprintf(out, "%s.\n", reasons[i].behind ? reasons[i].behind : "");
        break;
    }
}

static const char blind_spots[] =
    "No mode sees: an access to the wrong place inside a buffer, or inside a pool or a larger allocation that the program "
    "divides up itself; an access that jumps over the guard (64 MiB at least, 4 GiB at most) into another buffer; races, and "
    "reads of memory that was never written, except floats (--modes fresh); managed, pinned, imported and IPC memory; and "
    "whatever the program did not do in these runs.";

void hunt_tell(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    const struct hunt_verdict verdict = hunt_judge(plan, runs, merged);
    const char *s = plural(verdict.runs);
    if (merged->count)
        fprintf(out, "\ncufence hunt: %zu finding%s in %u run%s\n", merged->count, plural(merged->count), verdict.runs, s);
    else
        fprintf(out, "\ncufence hunt: nothing found in %u run%s\n", verdict.runs, s);
    if (!merged->count)
        tell_verdict(out, &verdict);
    for (size_t i = 0; i < merged->count; i++)
        tell_finding(out, i + 1, &merged->findings[i]);
    tell_runs(out, plan, runs, merged);
    if (merged->unreadable)
        fprintf(out, "\n%zu line%s of the report files could not be read: a process was killed while it wrote.\n",
                merged->unreadable, plural(merged->unreadable));
    if (verdict.failed) {
        fputs("\nThe program failed without a finding in ", out);
        put_modes(out, verdict.failed);
        fputs(": its own messages say more.\nIf it succeeds without cufence, docs/hunt.md says what may differ.\n", out);
    }
    fputc('\n', out);
    words_print(out, blind_spots, 0);
}

/* ---- JSON (docs/hunt.md) ---- */

#define SCHEMA 1

static json_t *names_of(unsigned bits)
{
    json_t *names = json_array();
    for (unsigned mode = 0; mode < MODES; mode++)
        if (bits & 1u << mode)
            json_array_append_new(names, json_string(modes[mode].name));
    return names;
}

static json_t *run_object(const struct run *run, const struct collected *merged, unsigned mode)
{
    int is_killed = WIFSIGNALED(run->status);
    return json_pack("{ss ss sf si sb sI}", "mode", modes[mode].name, "options", modes[mode].options, "seconds", run->seconds,
                     is_killed ? "signal" : "exit_status", is_killed ? WTERMSIG(run->status) : WEXITSTATUS(run->status),
                     "guarded", run->tally.counts[TALLY_GUARDED] != 0, "findings", (json_int_t)merged_by(merged, mode));
}

int hunt_put_json(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged,
                  int is_complete)
{
    json_t *command = json_array(), *ran = json_array(), *findings = json_array();
    for (char **word = plan->command; *word; word++)
        json_array_append_new(command, text_to_json(*word));
    for (unsigned mode = 0; mode < MODES; mode++)
        if (runs[mode].is_started)
            json_array_append_new(ran, run_object(&runs[mode], merged, mode));
    for (size_t i = 0; i < merged->count; i++) {
        const struct collected_finding *finding = &merged->findings[i];
        json_array_append_new(findings, json_pack("{so sI sO}", "modes", names_of(finding->tags), "reports",
                                                  (json_int_t)finding->count, "report", finding->first));
    }
    return text_put_json(out,
                         json_pack("{si ss so sb so so sI}", "schema", SCHEMA, "cufence", cufence_version_string(), "command",
                                   command, "complete", is_complete, "runs", ran, "findings", findings, "known",
                                   (json_int_t)merged->known_count),
                         JSON_INDENT(1) | JSON_REAL_PRECISION(4));
}
