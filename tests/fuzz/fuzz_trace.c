/* Lines of a trace from an untrusted source: the first as its header, the others as events. What is accepted is written again
 * and is then the same. */
#include "fuzz.h"

#include "lens/diff/compare.h"

static char *written(const struct trace_event *event, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    require(out != NULL);
    trace_event_write(out, event);
    require(fclose(out) == 0);
    return text;
}

static void check(const struct trace_event *event, struct trace_writers *writers, uint64_t line)
{
    struct trace_event again;
    struct problem problem;
    size_t size, second;
    char *text = written(event, &size);
    require(event->kind < TRACE_KINDS && event->name && event->place && event->symbol);
    require(trace_event_read(text, size, &again, &problem) == CUFENCE_OK);
    char *repeated = written(&again, &second);
    require(size == second && !memcmp(text, repeated, size));
    struct trace_difference same = trace_compare(event, writers, line, &again, writers, line, 0);
    require(same.kind == TRACE_EQUAL);
    trace_writers_note(writers, event, line, 0);
    trace_event_free(&again);
    free(text);
    free(repeated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_header header;
    struct trace_event event, before = {0};
    struct problem problem;
    struct trace_writers *writers = trace_writers_make();
    const uint8_t *end = data + size;
    require(writers != NULL);
    for (uint64_t line = 1; data < end; line++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        size_t length = (size_t)((newline ? newline : end) - data);
        cufence_status status = line == 1 ? trace_header_read((const char *)data, length, &header, &problem)
                                          : trace_event_read((const char *)data, length, &event, &problem);
        require(status == CUFENCE_OK || problem.text[0]);
        if (line > 1 && status == CUFENCE_OK) {
            check(&event, writers, line);
            (void)trace_compare(&before, writers, line, &event, writers, line, (unsigned)line & 31);
            size_t fresh = 0;
            while (trace_next_fresh(&before, &event, &fresh))
                fresh++;
            trace_event_free(&before);
            before = event;
        }
        data += length + (newline != NULL);
    }
    trace_event_free(&before);
    trace_writers_free(writers);
    return 0;
}
