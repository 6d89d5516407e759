#include "uninit_runs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The reason comes behind the file and the line; 0: none. */
static cufence_status fail(const struct seen_file *file, uint64_t line, cufence_status status, struct problem *problem,
                           const char *why)
{
    char number[24] = "";
    if (line)
        snprintf(number, sizeof number, ":%" PRIu64, line);
    return problem_set(problem, status, "%.200s%s: %.120s", file->path, number, why);
}

/* Reads the line at the file's position, without its newline. *is_cut: the file ends before a newline. */
static cufence_status read_line(struct seen_file *file, int *is_cut, struct problem *problem)
{
    int character = EOF;
    file->size = 0;
    while ((character = getc_unlocked(file->file)) != EOF && character != '\n') {
        if (file->size == SEEN_LINE_BYTES)
            return fail(file, file->lines + 1, CUFENCE_ERROR_CORRUPT, problem, "the line is longer than 4 MiB");
        file->line[file->size++] = (char)character;
    }
    *is_cut = character == EOF;
    return ferror(file->file) ? fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno)) : CUFENCE_OK;
}

/* Puts file and line in front of the message. */
static cufence_status at_line(const struct seen_file *file, uint64_t line, cufence_status status, struct problem *problem)
{
    struct problem inner = *problem;
    return fail(file, line, status, problem, inner.text);
}

cufence_status seen_file_open(struct seen_file *file, const char *path, struct problem *problem)
{
    int is_cut;
    *file = (struct seen_file){.path = path};
    file->file = fopen(path, "re");
    if (!file->file)
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno));
    file->writers = seen_writers_make();
    file->line = malloc(SEEN_LINE_BYTES);
    if (!file->writers || !file->line)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    cufence_status result = read_line(file, &is_cut, problem);
    if (result != CUFENCE_OK)
        return result;
    result = seen_header_read(file->line, file->size, &file->header, problem);
    file->lines = 1;
    file->next = file->size + 1;
    return result == CUFENCE_OK ? CUFENCE_OK : at_line(file, 1, result, problem);
}

void seen_file_close(struct seen_file *file)
{
    if (file->file)
        fclose(file->file);
    free(file->line);
    seen_writers_free(file->writers);
}

/* Takes the event apart that file->line has. What is only the beginning of a line ends the file: the program was killed. */
static cufence_status take(struct seen_file *file, int is_cut, struct seen_event *event, struct problem *problem)
{
    cufence_status status = seen_event_read(file->line, file->size, event, problem);
    if (status == CUFENCE_ERROR_CORRUPT && is_cut) {
        file->has_ended = 1;
        return CUFENCE_OK;
    }
    if (status != CUFENCE_OK)
        return at_line(file, file->lines, status, problem);
    if (event->kind == SEEN_END) {
        file->has_ended = 1;
        file->missed = event->missed;
        seen_event_free(event);
    }
    return CUFENCE_OK;
}

cufence_status seen_file_next(struct seen_file *file, struct seen_event *event, struct seen_at *at, struct problem *problem)
{
    int is_cut;
    *event = (struct seen_event){0};
    *at = (struct seen_at){.line = file->lines + 1, .offset = file->next};
    if (file->has_ended)
        return CUFENCE_OK;
    if ((uint64_t)ftello(file->file) != file->next && fseeko(file->file, (off_t)file->next, SEEK_SET) != 0)
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno));
    cufence_status status = read_line(file, &is_cut, problem);
    if (status != CUFENCE_OK)
        return status;
    if (is_cut && !file->size) {
        file->has_ended = 1;
        return CUFENCE_OK;
    }
    file->lines++;
    file->next += file->size + 1;
    status = take(file, is_cut, event, problem);
    at->number = event->number;
    if (status == CUFENCE_OK && !file->has_ended)
        seen_writers_note(file->writers, event, at->line);
    return status;
}

cufence_status seen_file_again(struct seen_file *file, struct seen_at at, struct seen_event *event, struct problem *problem)
{
    int is_cut;
    *event = (struct seen_event){0};
    if (fseeko(file->file, (off_t)at.offset, SEEK_SET) != 0)
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno));
    cufence_status status = read_line(file, &is_cut, problem);
    if (status == CUFENCE_OK)
        status = seen_event_read(file->line, file->size, event, problem);
    return status == CUFENCE_OK ? CUFENCE_OK : at_line(file, at.line, status, problem);
}
