#include "finding/report.h"
#include "delivery.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/aside.h"
#include "base/env.h"
#include "base/output.h"
#include "base/tally.h"
#include "base/text.h"
#include "base/tunables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_MEMORY "cufence: a kernel has faulted, and the host has no memory for the report\n"

enum { COLLECTORS = 4 }; /* commands inside each other */

struct report_file {
    char name[1024]; /* "" if none */
    int is_torn;     /* atomic: the last report was truncated, probably within a line */
};

static struct {
    struct lock lock; /* guards every field not marked otherwise; a leaf lock */
    uint64_t count;   /* atomic; written under lock */
    char *last_text;
    char *last_json; /* of the same report; NULL if out of host memory */
    cufence_fault_handler handler;
    void *handler_user;
    struct report_file log, json[1 + COLLECTORS]; /* the names are constant after delivery_open(); behind the first: the same
                                                     lines for each `cufence hunt` or `cufence demo` that has started us */
    int is_forced, has_no_color;                  /* color: constant likewise */
    uint64_t *printed;                            /* identities of the printed reports */
    uint64_t printed_count, reported, again, beyond;
    uint64_t known, known_times; /* reports that the user knows already: without repetitions, with them */
} delivery = {.lock = LOCK(RANK_LEAF)};

static _Thread_local int is_in_handler;

cufence_status delivery_open(const struct options *options)
{
    const char *no_color = env_get("NO_COLOR"), *term = env_get("TERM"), *collected = env_get("CUFENCE_COLLECT");
    const char *forced = env_get("FORCE_COLOR");
    delivery.is_forced = forced && *forced && strcmp(forced, "0") != 0;
    delivery.has_no_color = (no_color && *no_color) || (term && !strcmp(term, "dumb"));
    cufence_status status = options_place_path(options->log, delivery.log.name, sizeof delivery.log.name);
    status = status ?: options_place_path(options->json, delivery.json[0].name, sizeof delivery.json[0].name);
    for (int i = 1; collected && *collected && i <= COLLECTORS; i++) {
        size_t length = strcspn(collected, "\n");
        snprintf(delivery.json[i].name, sizeof delivery.json[i].name, "%.*s", (int)length, collected);
        collected += length + (collected[length] == '\n');
    }
    return status;
}

/* Appends to the file. Returns 0 or an errno value. Uses a single write, so that processes sharing the file don't interleave
 * their reports. */
static int append(struct report_file *file, const char *text)
{
    if (!file->name[0])
        return 0;
    size_t size = strlen(text);
    char *whole = __atomic_load_n(&file->is_torn, __ATOMIC_RELAXED) ? malloc(size + 1) : NULL;
    if (whole) { /* start a new line: a line-based reader then loses only the truncated report */
        whole[0] = '\n';
        memcpy(whole + 1, text, size);
    }
    int error = whole ? output_append(file->name, whole, size + 1) : output_append(file->name, text, size);
    __atomic_store_n(&file->is_torn, error != 0, __ATOMIC_RELAXED);
    free(whole);
    return error;
}

/* Reports a failed write to `file` on standard error, and in the log unless `file` is the log. NULL: to standard error. */
static void complain(const struct report_file *file, int error)
{
    char text[1200];
    if (!error)
        return;
    if (file && file != &delivery.log)
        tally_note(TALLY_BLIND);
    int length = snprintf(text, sizeof text, "==%d== cufence: ", (int)getpid());
    snprintf(text + length, sizeof text - (size_t)length, "%s%s: %s\n",
             file ? "cannot write the report to " : "standard error has not taken the report above", file ? file->name : "",
             strerror(error));
    text_make_lines_plain(text);
    if (file)
        output_print(text, 1);
    if (file != &delivery.log)
        append(&delivery.log, text);
}

static void keep(const char *text, const char *json)
{
    tally_note(TALLY_FOUND);
    char *kept_text = strdup(text), *kept_json = json ? strdup(json) : NULL;
    HOLD(&delivery.lock);
    free(delivery.last_text);
    free(delivery.last_json);
    delivery.last_text = kept_text;
    delivery.last_json = kept_json;
    __atomic_add_fetch(&delivery.count, 1, __ATOMIC_RELEASE);
}

/* Returns 1 if the report is new and there is room for it. The user knows it already, or not: each is counted apart. */
static int is_wanted(uint64_t identity, int is_known)
{
    int is_new = 1, is_room = 0;
    HOLD(&delivery.lock);
    for (uint64_t i = 0; identity && is_new && i < delivery.printed_count; i++)
        is_new = delivery.printed[i] != identity;
    if (is_new && (is_known || delivery.reported < tunables.reports)) {
        if (list_make_room(&delivery.printed, delivery.printed_count, sizeof identity))
            delivery.printed[delivery.printed_count++] = identity;
        is_room = 1; /* out of host memory: print it anyway; a repetition may be printed too */
    }
    delivery.reported += (uint64_t)(is_room && !is_known);
    delivery.again += (uint64_t)(!is_new && !is_known);
    delivery.beyond += (uint64_t)(is_new && !is_room);
    delivery.known += (uint64_t)(is_new && is_known);
    delivery.known_times += (uint64_t)is_known;
    return is_new && is_room;
}

void delivery_conclude(void)
{
    lock_take(&delivery.lock);
    uint64_t again = delivery.again, beyond = delivery.beyond, known = delivery.known, times = delivery.known_times;
    lock_release(&delivery.lock);
    if (again)
        output_note("findings reported above occurred %llu more time%s", (unsigned long long)again, plural(again));
    if (beyond)
        output_note("%llu more finding%s not reported: a process reports %llu", (unsigned long long)beyond, plural(beyond),
                    (unsigned long long)tunables.reports);
    if (known)
        output_note("%llu known finding%s (known=), met %llu time%s, not reported", (unsigned long long)known,
                    known == 1 ? "" : "s", (unsigned long long)times, plural(times));
}

void delivery_keep_known(const char *json, uint64_t identity)
{
    if (is_wanted(identity, 1))
        delivery_print(NULL, json);
}

uint64_t delivery_known(void)
{
    HOLD(&delivery.lock);
    return delivery.known;
}

uint64_t delivery_findings(void)
{
    HOLD(&delivery.lock);
    return delivery.count - delivery.again;
}

static int is_coloured(void)
{
    return delivery.is_forced || (!delivery.has_no_color && output_is_terminal());
}

static int print_on_standard_error(const char *text)
{
    char *coloured = is_coloured() ? colour_text(text) : NULL;
    const char *shown = coloured ? coloured : text;
    int error = output_print(shown, 1);
    free(coloured);
    return error;
}

int delivery_needs_head(void)
{
    struct stat found;
    if (!delivery.json->name[0])
        return 0;
    if (stat(delivery.json->name, &found) != 0)
        return errno == ENOENT;
    return S_ISREG(found.st_mode) && found.st_size == 0;
}

/* Files first: who sees the report may end the program at once. */
void delivery_print(const char *text, const char *json)
{
    int logged = text ? append(&delivery.log, text) : 0;
    int written = json ? append(&delivery.json[0], json) : 0;
    for (int i = 1; json && i <= COLLECTORS; i++)
        if (access(delivery.json[i].name, F_OK) == 0) /* else the command has ended before us */
            complain(&delivery.json[i], append(&delivery.json[i], json));
    int printed = text ? print_on_standard_error(text) : 0;
    complain(&delivery.log, logged);
    complain(NULL, printed);
    complain(&delivery.json[0], written);
}

struct addition {
    const char *text, *json;
};

static void add(void *argument)
{
    const struct addition *addition = argument;
    delivery_print(addition->text, addition->json);
    if (!addition->json && delivery.json->name[0])
        output_note("the host has no memory for the report that %s should get", delivery.json->name);
}

void delivery_add(const char *text, const char *json)
{
    struct addition addition = {text, json};
    aside_call(add, &addition);
}

int delivery_publish(const char *text, const char *json, uint64_t identity)
{
    int is_printed = is_wanted(identity, 0);
    if (!text)
        text = NO_MEMORY;
    if (is_printed)
        delivery_add(text, json);
    keep(text, json);
    return is_printed;
}

void delivery_set_handler(cufence_fault_handler handler, void *user)
{
    HOLD(&delivery.lock);
    delivery.handler = handler;
    delivery.handler_user = user;
}

struct handling {
    cufence_fault_handler handler;
    const cufence_fault *fault;
    void *user;
};

static void call(void *argument)
{
    const struct handling *handling = argument;
    handling->handler(handling->fault, handling->user);
}

void delivery_call_handler(const cufence_fault *fault)
{
    lock_take(&delivery.lock);
    cufence_fault_handler handler = delivery.handler;
    void *user = delivery.handler_user;
    lock_release(&delivery.lock);
    if (!handler)
        return;
    struct handling handling = {handler, fault, user};
    is_in_handler++;
    aside_return_for(call, &handling);
    is_in_handler--;
}

int delivery_is_in_handler(void)
{
    return is_in_handler;
}

uint64_t delivery_count(void)
{
    return __atomic_load_n(&delivery.count, __ATOMIC_ACQUIRE);
}

/* Copies the text to `buffer` (see delivery.h). `kept` is &delivery.last_text or &delivery.last_json. */
static size_t copy_kept(char *const *kept, char *buffer, size_t size)
{
    HOLD(&delivery.lock);
    size_t length = delivery.count && *kept ? strlen(*kept) + 1 : 0;
    if (length && size)
        snprintf(buffer, size, "%s", *kept);
    return length;
}

void delivery_forget(void)
{
    lock_init(&delivery.lock, RANK_LEAF); /* the thread that held it is not there */
    delivery.count = 0;
}

size_t delivery_last_text(char *buffer, size_t size)
{
    return copy_kept(&delivery.last_text, buffer, size);
}

size_t delivery_last_json(char *buffer, size_t size)
{
    return copy_kept(&delivery.last_json, buffer, size);
}
