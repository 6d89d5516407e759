/* `cufence hunt --uninit`: two runs whose fresh memory was filled with other bytes, and where they part. */
#include "arguments.h"
#include "uninit_runs.h"
#include "hunt.h"
#include "uninit.h"

#include "base/env.h"
#include "base/files.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of struct mode: the first pair finds launches, the second makes the same runs again: what a run does otherwise by itself is
 * left out, and the launches that were found are saved. */
enum { ZEROS = UNINIT_MODES, OTHERS, AGAIN, OTHERS_AGAIN };
enum { SUSPECTS = 8, DIFFERENCES = 256, OWN = 4096 };

struct hunted {
    struct plan *plan;
    struct collected *merged;
    int (*run)(void *user, unsigned mode);
    void *user;
    char folder[PATH_MAX];
    struct diff diff; /* of the first two */
    const struct diff_found *suspects[SUSPECTS], *host;
    size_t count;
};

#define say(...) arguments_complain("hunt", 0, __VA_ARGS__)

static void path_of(const struct hunted *hunted, const char *name, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%.4000s/%s", hunted->folder, name);
    (void)length;
}

/* ---- the folder ---- */

static int make_folder(struct hunted *hunted)
{
    const char *parent = env_get("TMPDIR");
    snprintf(hunted->folder, sizeof hunted->folder, "%s/cufence-uninit-XXXXXX", parent && *parent ? parent : "/tmp");
    if (strpbrk(hunted->folder, ",=%") || strlen(hunted->folder) > 140)
        say("TMPDIR cannot be used: its name is too long, or has one of , = %%");
    else if (!mkdtemp(hunted->folder))
        say("no folder for what the runs do: %s: %s; set TMPDIR to a folder that can be written", hunted->folder,
            strerror(errno));
    else
        return 1;
    return 0;
}

/* The folder of the launch that the run has saved; "" if there is none. */
static void find_saved(const struct hunted *hunted, const char *name, uint64_t launch, char out[PATH_MAX])
{
    char path[PATH_MAX], begin[32];
    path_of(hunted, name, path);
    snprintf(begin, sizeof begin, "%06" PRIu64 "-", launch);
    if (!files_find(path, begin, out))
        out[0] = '\0';
}

/* ---- two runs ---- */

/* Compares them. Returns 0 after a message. */
static int compare(const struct hunted *hunted, struct diff *diff, const char *a, const char *b)
{
    struct problem problem;
    static char paths[DIFF_SIDES][PATH_MAX]; /* the messages of a diff name them */
    path_of(hunted, a, paths[0]);
    path_of(hunted, b, paths[1]);
    if (access(paths[0], F_OK) != 0 || access(paths[1], F_OK) != 0)
        return say("no launch was seen in one of the runs: there is nothing to compare");
    if (diff_open(diff, paths[0], paths[1], &problem) != CUFENCE_OK || diff_compare(diff, &problem) != CUFENCE_OK)
        return say("%s", problem.text);
    for (int side = 0; side < DIFF_SIDES; side++)
        if (diff->files[side].missed)
            say("%" PRIu64 " launch%s no hashes: taken for equal", diff->files[side].missed,
                diff->files[side].missed == 1 ? " has" : "es have");
    return 1;
}

static int is_computed(const struct diff_found *found)
{
    return found->what.kind == SEEN_OTHER_OUTPUT || found->what.kind == SEEN_OTHER_STRUCT;
}

/* Launches with equal inputs, as far as they were written, and other outputs. What follows from them has other inputs. And the
 * first other difference, if the host has copied such memory before: then it has done something else because of it. */
static void take_suspects(struct hunted *hunted)
{
    const struct diff *diff = &hunted->diff;
    for (size_t i = 0; i < diff->found_count && hunted->count < SUSPECTS; i++) {
        const struct diff_found *found = &diff->found[i];
        if (is_computed(found) && found->has_fresh)
            hunted->suspects[hunted->count++] = found;
        else if (i == 0 && !is_computed(found) && found->copied[DIFF_A].line)
            hunted->host = found;
    }
}

static uint64_t number_of(const struct diff_found *found)
{
    return found->at[!found->at[DIFF_A].line].number;
}

/* Whether it is among the differences of two runs with the same fill, or behind one from which on nothing fits together. */
static int is_own(const struct diff_found *found, const struct diff *own)
{
    for (size_t i = 0; i < own->found_count; i++) {
        const struct diff_found *other = &own->found[i];
        int is_end = other->what.kind == SEEN_OTHER_KERNEL || other->what.kind == SEEN_LONGER;
        if (found->stream == other->stream &&
            (number_of(found) == number_of(other) || (is_end && number_of(found) > number_of(other))))
            return 1;
    }
    return 0;
}

/* "event 3 of stream 1, store (equal inputs and other outputs)": the first difference. "" if it cannot be read. */
struct first {
    char text[4096];
};

static struct first first_of(struct diff *diff)
{
    struct first first = {""};
    struct diff_shown shown;
    struct problem ignored;
    const struct diff_found *found = &diff->found[0];
    if (diff_show(diff, found, &shown, &ignored) != CUFENCE_OK)
        return first;
    const char *name = shown.events[!found->at[DIFF_A].line].name;
    snprintf(first.text, sizeof first.text, "event %" PRIu64 " of stream %" PRIu64 ", %s (%s)", number_of(found), found->stream,
             *name ? name : "a graph", diff_kinds[found->what.kind]);
    diff_hide(&shown);
    return first;
}

/* Leaves out what differs in two runs with the same fill. Returns 0 if there is something, or if that is not known. */
static int leave_own(struct hunted *hunted, const char *a, const char *b, const char *fill)
{
    struct diff own = {.most = OWN};
    size_t kept = 0;
    int is_compared = compare(hunted, &own, a, b), is_alike = is_compared && !own.found_count;
    if (is_compared && !is_alike)
        say("two runs with %s differ by themselves, in %" PRIu64
            " of their launches and copies, first in %s: those that differ so are left out",
            fill, own.total, first_of(&own).text);
    for (size_t i = 0; i < hunted->count; i++)
        if (is_compared && !is_own(hunted->suspects[i], &own))
            hunted->suspects[kept++] = hunted->suspects[i];
    hunted->count = kept;
    if (hunted->host && (!is_compared || is_own(hunted->host, &own)))
        hunted->host = NULL;
    diff_close(&own);
    return is_alike;
}

/* ---- runs ---- */

/* Returns whether to go on. saved: the folder of the launches that are to be saved, NULL: none. */
static int run_watched(struct hunted *hunted, unsigned mode, const char *file, const char *saved)
{
    struct plan *plan = hunted->plan;
    size_t used = (size_t)snprintf(plan->extra, sizeof plan->extra, ",uninit=%s/%s", hunted->folder, file);
    const char *before = ",save_values=";
    for (size_t i = 0; saved && i < hunted->count; i++) {
        used +=
            (size_t)snprintf(plan->extra + used, sizeof plan->extra - used, "%s#%" PRIu64, before, hunted->suspects[i]->launch);
        before = "|";
    }
    if (*before == '|')
        snprintf(plan->extra + used, sizeof plan->extra - used, "=%s/%s", hunted->folder, saved);
    plan->modes |= 1u << mode;
    return hunted->run(hunted->user, mode);
}

/* ---- findings ---- */

static void report(struct hunted *hunted, const struct diff_found *found, int is_host)
{
    char saved[UNINIT_SIDES][PATH_MAX], *folders[UNINIT_SIDES] = {saved[0], saved[1]};
    struct diff_shown shown;
    struct diff_found copy = {.at = {found->copied[DIFF_A], found->copied[DIFF_B]}};
    struct uninit_pair pair;
    struct uninit_fact fact;
    struct problem ignored;
    size_t result = SIZE_MAX;
    if (is_host)
        say("after it has copied bytes that nobody has written, the program does something else in %s",
            first_of(&hunted->diff).text);
    if (diff_show(&hunted->diff, is_host ? &copy : found, &shown, &ignored) != CUFENCE_OK)
        return;
    find_saved(hunted, "zeros", found->launch, saved[0]);
    find_saved(hunted, "others", found->launch, saved[1]);
    if (!is_host)
        seen_find_output(&shown.events[DIFF_A], &shown.events[DIFF_B], SEEN_TWO_FILLS, &result);
    uninit_take(&pair, &fact, shown.events, result, is_host ? NULL : folders);
    if (is_host)
        fact.what = "the program on the host";
    uninit_report(hunted->merged, &fact, hunted->plan->command);
    uninit_close(&pair);
    diff_hide(&shown);
}

static void report_all(struct hunted *hunted)
{
    struct collected *merged = hunted->merged;
    size_t before = merged->count;
    merged->tag = ZEROS;
    for (size_t i = 0; i < hunted->count; i++)
        report(hunted, hunted->suspects[i], 0);
    if (hunted->host)
        report(hunted, hunted->host, 1);
    for (size_t i = before; i < merged->count; i++)
        merged->findings[i].tags |= 1u << OTHERS;
}

/* The first two runs differ. Returns 0 if that is no verdict. */
static int look_closer(struct hunted *hunted)
{
    size_t suspected;
    take_suspects(hunted);
    suspected = hunted->count + (hunted->host != NULL);
    if (!suspected && hunted->merged->count)
        return 1; /* that was reported */
    if (!run_watched(hunted, AGAIN, "c", "zeros"))
        return 0;
    int is_alike = leave_own(hunted, "a", "c", "0x00");
    if (hunted->count || hunted->host) {
        if (!run_watched(hunted, OTHERS_AGAIN, "d", "others"))
            return 0;
        is_alike &= leave_own(hunted, "b", "d", "0x4b");
    } else if (is_alike) {
        say("the runs differ with the fill, first in %s, but no launch before it was given memory that nobody has written, as "
            "far as hashes tell (`cufence docs hunt`)",
            first_of(&hunted->diff).text);
    }
    report_all(hunted);
    return is_alike && suspected;
}

/* A fault with one fill alone is one that such bytes lead to. */
static void tell_faults(const struct hunted *hunted)
{
    const unsigned both = 1u << ZEROS | 1u << OTHERS;
    for (size_t i = 0; i < hunted->merged->count; i++)
        if (hunted->plan->modes & 1u << OTHERS && (hunted->merged->findings[i].tags & both) != both)
            say("%s: found with one fill alone: it depends on bytes that nobody has written, or is not there in each run",
                hunted->merged->findings[i].facts->headline);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

int hunt_uninit(struct plan *plan, struct collected *merged, int (*run)(void *user, unsigned mode), void *user)
{
    struct hunted hunted = {.plan = plan, .merged = merged, .run = run, .user = user, .diff.most = DIFFERENCES};
    int is_verdict = 0;
    if (!make_folder(&hunted))
        return 0;
    if (run_watched(&hunted, ZEROS, "a", NULL) && run_watched(&hunted, OTHERS, "b", NULL)) {
        tell_faults(&hunted);
        is_verdict = compare(&hunted, &hunted.diff, "a", "b") && (!hunted.diff.found_count || look_closer(&hunted));
    }
    diff_close(&hunted.diff);
    nftw(hunted.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return is_verdict;
}
