/*
 * Findings read back from JSON files, of many processes as like as not: the same finding again is merged. Not thread-safe.
 */
#pragma once

#include "base/known_findings.h"
#include "finding/finding.h"

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

/* One finding, and how often and where it was reported. */
struct collected_finding {
    json_t *first;               /* the first report of it: docs/finding.schema.json */
    const struct finding *facts; /* what it says, as far as it is well formed */
    struct json_memory memory;   /* of the facts */
    char *key;                   /* equal for the same finding, for whoever compares runs */
    size_t count;                /* reports */
    unsigned tags;               /* a bit for each value that `tag` had when one was read */
    json_t *processes;           /* an array of their "process" members, each once */
    enum known known;            /* as what the user knows it already */
};

struct collected {
    struct collected_finding *findings; /* in the order in which they were met */
    size_t count;
    struct collected_finding *known; /* those that the user knows already, and that are not among the others */
    size_t known_count;
    size_t reports;                  /* of the findings, known ones left out */
    size_t unreadable;               /* lines */
    unsigned tag;                    /* 0 to 31: the caller's, for what it reads next */
    const struct known_names *names; /* the caller's, for what it reads next; NULL: none */
    json_t *runs, *guarded;          /* arrays of the lines of kind "run" and "guarded"; NULL: none */
    uint64_t allocations, processes; /* that were guarded, and by how many */
};

/* Whether a line says that a run has begun, so that those about what its processes have guarded would be there, too. */
int collected_is_known(const struct collected *collected);

/* ", 12 allocations guarded by 2 processes", ", NOTHING WAS GUARDED: ...", or "" if nothing is known of that. */
void collected_say_guarded(const struct collected *collected, char *out, size_t size);

/*
 * Adds the findings of a file of JSON Lines ("-": standard input), with the names of their tensors. Lines without a finding in
 * them are skipped; a file without any line of cufence's is an error. Returns 0 after a message on stderr that names the file,
 * and the line where one cannot be read; what could be read is added even then. `command` is the sub-command's name, for
 * messages; NULL: there are none.
 */
int collected_read(struct collected *collected, const char *command, const char *path);

/* Counts bytes found beside a buffer as a fault's, if its access has left them in another run. */
void collected_join(struct collected *collected);
void collected_free(struct collected *collected);

/* Makes the file to which each process of a program adds its reports, whatever json= says (environment_collect()).
 * kept: its name, whole and new; NULL: a temporary file, which the caller removes. Returns 0, or the exit status after a
 * message. */
int collected_open(const char *command, const char *kept, char file[PATH_MAX]);

/* Returns the first report with `count`, `processes` and `known`; NULL if out of host memory. The caller drops it. */
json_t *collected_json(const struct collected_finding *finding);

/* The name by which the program knows the tensor of the finding's buffer: "decoder.weight (parameter)", "" if it has none. */
void finding_tensor(const struct collected_finding *finding, char *out, size_t size);

/* Appends "model.py:12 in forward": the frame that the program's author knows best. In C and C++ the innermost one is often a
 * wrapper, so its caller follows. Nothing if there is no frame. */
void frames_place(const struct stack_frame *frames, size_t count, char *out, size_t size);

/* Where it was, for people: "at oob.py:9 in k_oob", "" if it is not known. */
void finding_place(const struct finding *finding, char *out, size_t size);

/* Who reported it: "rank 3, pid 4242 on node7". */
void finding_who(json_t *process, char *out, size_t size);

/* The findings in the forms of other programs: one page of HTML that needs nothing else; SARIF 2.1.0, which code hosts and
 * editors read. Each prints a whole document, and returns 0 when the host is out of memory. Whether it was written, ferror()
 * and fclose() tell. */
int face_html(const struct collected *collected, FILE *out);
int face_sarif(const struct collected *collected, FILE *out);
