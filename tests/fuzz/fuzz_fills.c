/* Lines of what a run did, as `cufence hunt --uninit` reads them: the first as their header, the others as events. What is
 * accepted is written again and is then the same. */
#include "fuzz.h"

#include "lens/fills/compare.h"

static char *written(const struct seen_event *event, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    require(out != NULL);
    seen_event_write(out, event);
    require(fclose(out) == 0);
    return text;
}

static void check(const struct seen_event *event, struct seen_writers *writers, uint64_t line)
{
    struct seen_event again;
    struct problem problem;
    size_t size, second;
    char *text = written(event, &size);
    require(event->kind < SEEN_KINDS && event->name && event->place && event->symbol);
    require(seen_event_read(text, size, &again, &problem) == CUFENCE_OK);
    char *repeated = written(&again, &second);
    require(size == second && !memcmp(text, repeated, size));
    struct seen_difference same = seen_compare(event, writers, line, &again, writers, line, 0);
    require(same.kind == SEEN_EQUAL);
    seen_writers_note(writers, event, line);
    seen_event_free(&again);
    free(text);
    free(repeated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen_header header;
    struct seen_event event, before = {0};
    struct problem problem;
    struct seen_writers *writers = seen_writers_make();
    const uint8_t *end = data + size;
    require(writers != NULL);
    for (uint64_t line = 1; data < end; line++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        size_t length = (size_t)((newline ? newline : end) - data);
        cufence_status status = line == 1 ? seen_header_read((const char *)data, length, &header, &problem)
                                          : seen_event_read((const char *)data, length, &event, &problem);
        require(status == CUFENCE_OK || problem.text[0]);
        if (line > 1 && status == CUFENCE_OK) {
            check(&event, writers, line);
            (void)seen_compare(&before, writers, line, &event, writers, line, (unsigned)line & 1);
            size_t fresh = 0;
            while (seen_next_fresh(&before, &event, &fresh))
                fresh++;
            seen_event_free(&before);
            before = event;
        }
        data += length + (newline != NULL);
    }
    seen_event_free(&before);
    seen_writers_free(writers);
    return 0;
}
