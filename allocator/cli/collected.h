/*
 * Findings read back from JSON files, of many processes as like as not: the same finding again is merged. Not thread-safe.
 */
#ifndef CUFENCE_CLI_COLLECTED_H
#define CUFENCE_CLI_COLLECTED_H

#include <jansson.h>
#include <stddef.h>

/* One finding, and how often and where it was reported. */
struct collected_finding {
    json_t *first;     /* the first report of it: docs/finding.schema.json */
    char *key;         /* equal for the same finding, for whoever compares runs */
    size_t count;      /* reports */
    unsigned tags;     /* a bit for each value that `tag` had when one was read */
    json_t *processes; /* an array of their "process" members, each once */
};

struct collected {
    struct collected_finding *findings; /* in the order in which they were met */
    size_t count;
    size_t reports;
    size_t unreadable; /* lines */
    unsigned tag;      /* 0 to 31: the caller's, for what it reads next */
};

/*
 * Adds the findings of a file of JSON Lines ("-": standard input), with the names of their tensors. Lines without a finding in
 * them are skipped. Returns 0 after a message on stderr that names the file, and the line where one cannot be read; what could
 * be read is added even then. `command` is the sub-command's name, for messages; NULL: there are none.
 */
int collected_read(struct collected *collected, const char *command, const char *path);
void collected_free(struct collected *collected);

/* Returns the first report with `count` and `processes`; NULL if out of host memory. The caller drops it. */
json_t *collected_json(const struct collected_finding *finding);

/* Facts of a finding, NULL or 0 where they are not known. Text is borrowed from it. */
const char *finding_text_of(json_t *finding, const char *section, const char *member); /* section may be NULL */
long long finding_number_of(json_t *finding, const char *section, const char *member);

/* The name by which the program knows the tensor of the finding's buffer: "decoder.weight (parameter)", "" if it has none. */
void finding_tensor(json_t *finding, char *out, size_t size);

/* Where it was, for people: "at oob.py:9 in k_oob", "" if it is not known. */
void finding_place(json_t *finding, char *out, size_t size);

/* Who reported it: "rank 3, pid 4242 on node7". */
void finding_who(json_t *process, char *out, size_t size);

#endif
