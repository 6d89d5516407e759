/* What a hunt has found, for people. */
#include "hunt.h"
#include "words.h"

#include "finding/finding.h"
#include "finding/frames.h"

#include <string.h>
#include <sys/wait.h>

enum { INDENT = 5, KEY = 14 };

/* ---- members of a report ---- */

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text ? text : "";
}

static long long number_of(const json_t *object, const char *member)
{
    return (long long)json_integer_value(json_object_get(object, member));
}

static struct stack_frame frame_of(const json_t *object)
{
    struct stack_frame frame = {.is_python = json_is_true(json_object_get(object, "python"))};
    snprintf(frame.function, sizeof frame.function, "%s", text_of(object, "function"));
    snprintf(frame.file, sizeof frame.file, "%s", text_of(object, "file"));
    snprintf(frame.module, sizeof frame.module, "%s", text_of(object, "module"));
    frame.line = (int)number_of(object, "line");
    frame.offset = (uint64_t)number_of(object, "offset");
    return frame;
}

/* ---- one finding ---- */

static void put_frame(FILE *out, const struct stack_frame *frame)
{
    if (frame->file[0])
        fprintf(out, "%s:%d", frames_file(frame), frame->line);
    else
        fprintf(out, "%s+0x%llx", frame->module, (unsigned long long)frame->offset);
    char function[sizeof frame->function];
    frames_function(frame, function, sizeof function);
    if (function[0])
        fprintf(out, " in %s", function);
}

/* "model.py:12 in forward": the frame that the program's author knows best. In C and C++ the innermost one is often a wrapper,
 * so its caller follows. Returns 0 if there is no frame. */
static int put_place(FILE *out, const json_t *frames)
{
    enum { LOOKED_AT = 64 };
    struct stack_frame all[LOOKED_AT];
    size_t count = 0;
    for (; count < json_array_size(frames) && count < LOOKED_AT; count++)
        all[count] = frame_of(json_array_get(frames, count));
    if (!count)
        return 0;
    const struct stack_frame *frame = frames_own(all, count), *caller = frame + 1;
    put_frame(out, frame);
    while (caller < all + count && frames_is_plumbing(caller))
        caller++;
    if (!frame->is_python && caller < all + count && caller->file[0]) {
        fputs(", called from ", out);
        put_frame(out, caller);
    }
    return 1;
}

/* " at kernels.cu:12 in store" */
static void put_kernel(FILE *out, const json_t *kernel)
{
    char name[256] = "";
    const char *full = text_of(kernel, "name"), *symbol = text_of(kernel, "symbol");
    struct stack_frame place = frame_of(kernel);
    finding_kernel(&(struct evidence_site){.kernel = *full ? full : NULL, .symbol = symbol}, name, sizeof name);
    if (place.file[0])
        fprintf(out, " at %s:%d", frames_file(&place), place.line);
    if (name[0])
        fprintf(out, " in %s", name);
}

static void put_headline(FILE *out, const json_t *report)
{
    fputs(text_of(report, "kind"), out);
    if (*text_of(report, "call")) {
        fprintf(out, " by %s at ", text_of(report, "call"));
        if (!put_place(out, json_object_get(json_object_get(report, "called"), "frames")))
            fputs("an unknown place", out);
    }
    put_kernel(out, json_object_get(report, "kernel"));
}

/* "0 bytes past the end of "y", 4000 bytes" */
static void put_buffer(FILE *out, const json_t *report)
{
    const json_t *buffer = json_object_get(report, "buffer"), *distance = json_object_get(buffer, "distance");
    long long bytes = number_of(distance, "bytes"), candidates = number_of(json_object_get(report, "candidates"), "total");
    if (!buffer) {
        if (candidates)
            fprintf(out, "buffer unknown: %lld candidate%s, see the report", candidates, candidates == 1 ? "" : "s");
        else
            fputs("buffer unknown", out);
        return;
    }
    if (distance && !strcmp(text_of(distance, "from"), "the start"))
        fprintf(out, "at byte %lld of ", bytes);
    else if (distance)
        fprintf(out, "%lld byte%s %s of ", bytes, bytes == 1 ? "" : "s", text_of(distance, "from"));
    if (*text_of(buffer, "label"))
        fprintf(out, "\"%s\", ", text_of(buffer, "label"));
    else
        fputs("a buffer of ", out);
    fprintf(out, "%lld bytes%s", number_of(buffer, "size"), json_object_get(buffer, "freed") ? ", which was freed" : "");
}

static void put_detail(FILE *out, const json_t *report)
{
    const json_t *access = json_object_get(report, "access"), *exception = json_object_get(report, "exception");
    if (*text_of(report, "reason")) {
        fputs(text_of(report, "reason"), out);
        return;
    }
    if (json_is_true(json_object_get(exception, "no_buffer"))) {
        fputs(*text_of(exception, "meaning") ? text_of(exception, "meaning") : text_of(exception, "name"), out);
        return;
    }
    if (number_of(access, "bytes"))
        fprintf(out, "%s of %lld bytes, ", text_of(access, "kind"), number_of(access, "bytes"));
    put_buffer(out, report);
}

struct written {
    char text[2048];
};

static struct written written_by(void (*put)(FILE *out, const json_t *object), const json_t *object)
{
    struct written written = {""};
    FILE *memory = fmemopen(written.text, sizeof written.text - 1, "w");
    if (memory) {
        put(memory, object);
        fclose(memory);
    }
    return written;
}

static void put_frames(FILE *out, const json_t *frames)
{
    put_place(out, frames);
}

static void put_line(FILE *out, const char *key, const json_t *frames)
{
    if (!json_array_size(frames))
        return;
    fprintf(out, "%*s%-*s", INDENT, "", KEY, key);
    words_print_place(out, written_by(put_frames, frames).text, INDENT + KEY);
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
    const json_t *report = finding->first, *buffer = json_object_get(report, "buffer");
    fprintf(out, "\n%3zu  ", number);
    words_print_place(out, written_by(put_headline, report).text, INDENT);
    fprintf(out, "%*s", INDENT, "");
    words_print(out, written_by(put_detail, report).text, INDENT);
    put_line(out, "launched at", json_object_get(json_object_get(report, "launch"), "frames"));
    put_line(out, "allocated at", json_object_get(json_object_get(buffer, "allocated"), "frames"));
    put_line(out, "freed at", json_object_get(json_object_get(buffer, "freed"), "frames"));
    fprintf(out, "%*s%-*s", INDENT, "", KEY, "found by");
    put_modes(out, finding->tags);
    fprintf(out, finding->count > 1 ? " (%zu reports)\n" : "\n", finding->count);
}

/* ---- the runs ---- */

void run_end_print(FILE *out, const struct run *run)
{
    if (WIFSIGNALED(run->status))
        fprintf(out, "killed by signal %d (%s)", WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
    else
        fprintf(out, "exit status %d", WEXITSTATUS(run->status));
}

int run_has_failed(const struct run *run, const struct collected *merged, unsigned mode)
{
    return run->is_started && !run->is_ended && run->status != 0 && !merged_by(merged, mode) && !merged_known_by(merged, mode);
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
        else if (!runs[mode].is_guarded && !merged_by(merged, mode))
            fputs("nothing was guarded", out);
        else
            put_numbers(out, merged, mode);
        fputc('\n', out);
    }
}

int hunt_is_complete(const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    for (unsigned mode = 0; mode < MODES; mode++) {
        const struct run *run = &runs[mode];
        if (plan->modes & 1u << mode && (!run->is_started || run->is_ended || run_has_failed(run, merged, mode) ||
                                         (plan->is_guarded_required && !run->is_guarded)))
            return 0;
    }
    return 1;
}

/* ---- all of it ---- */

/* What is missing where nothing was found. */
static void tell_verdict(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    unsigned unguarded = 0, failed = 0;
    for (unsigned mode = 0; mode < MODES; mode++) {
        unguarded |= (unsigned)(runs[mode].is_started && !runs[mode].is_guarded) << mode;
        failed |= (unsigned)run_has_failed(&runs[mode], merged, mode) << mode;
    }
    if (hunt_is_complete(plan, runs, merged)) {
        fputs("Each process has said at its end how many of its allocations were guarded.\n", out);
        return;
    }
    fputs("That is no verdict: ", out);
    if (unguarded && plan->is_guarded_required) {
        fputs("nothing was guarded in ", out);
        put_modes(out, unguarded);
        fputs(", and the program's processes have said why.\n", out);
    } else {
        fputs(failed ? "the program failed by itself.\n" : "not every run was made to its end.\n", out);
    }
}

static void tell_failures(FILE *out, const struct run runs[MODES], const struct collected *merged)
{
    unsigned failed = 0;
    for (unsigned mode = 0; mode < MODES; mode++)
        failed |= (unsigned)run_has_failed(&runs[mode], merged, mode) << mode;
    if (!failed)
        return;
    fputs("\nThe program failed without a finding in ", out);
    put_modes(out, failed);
    fputs(": its own messages say more.\nIf it succeeds without cufence, `cufence docs hunt` says what may differ.\n", out);
}

static const char blind_spots[] =
    "No mode sees: an access to the wrong place inside a buffer, or inside a pool or a larger allocation that the program "
    "divides up itself; an access that jumps over the guard (64 MiB at least, 4 GiB at most) into another buffer; races, and "
    "reads of memory that was never written; managed, pinned, imported and IPC memory; and whatever the program did not do in "
    "these runs.";

static unsigned count_runs(const struct run runs[MODES])
{
    unsigned count = 0;
    for (unsigned mode = 0; mode < MODES; mode++)
        count += (unsigned)runs[mode].is_started;
    return count;
}

void hunt_tell(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged)
{
    unsigned count = count_runs(runs);
    if (merged->count)
        fprintf(out, "\ncufence hunt: %zu finding%s in %u run%s\n", merged->count, merged->count == 1 ? "" : "s", count,
                count == 1 ? "" : "s");
    else
        fprintf(out, "\ncufence hunt: nothing found in %u run%s\n", count, count == 1 ? "" : "s");
    if (!merged->count)
        tell_verdict(out, plan, runs, merged);
    for (size_t i = 0; i < merged->count; i++)
        tell_finding(out, i + 1, &merged->findings[i]);
    tell_runs(out, plan, runs, merged);
    if (merged->unreadable)
        fprintf(out, "\n%zu line%s of the report files could not be read: a process was killed while it wrote.\n",
                merged->unreadable, merged->unreadable == 1 ? "" : "s");
    tell_failures(out, runs, merged);
    fputc('\n', out);
    words_print(out, blind_spots, 0);
}
