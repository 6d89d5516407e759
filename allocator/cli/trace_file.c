#include "diff.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The reason comes behind the file, of which a long name is cut, and the line; 0: none. */
static cufence_status fail(const struct trace_file *file, uint64_t line, cufence_status status, struct problem *problem,
                           const char *why)
{
    char number[24] = "";
    size_t length = strlen(file->path), cut = length > 120 ? length - 120 : 0;
    if (line)
        snprintf(number, sizeof number, ":%" PRIu64, line);
    return problem_set(problem, status, "%s%s%s: %.120s", cut ? "..." : "", file->path + cut, number, why);
}

/* Reads the line at the file's position, without its newline. *is_cut: the file ends before a newline. */
static cufence_status read_line(struct trace_file *file, int *is_cut, struct problem *problem)
{
    int character = EOF;
    file->size = 0;
    while ((character = getc_unlocked(file->file)) != EOF && character != '\n') {
        if (file->size == TRACE_LINE_BYTES)
            return fail(file, file->lines + 1, CUFENCE_ERROR_CORRUPT, problem, "the line is longer than 4 MiB");
        file->line[file->size++] = (char)character;
    }
    *is_cut = character == EOF;
    return ferror(file->file) ? fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno)) : CUFENCE_OK;
}

/* Puts file and line in front of the message. */
static cufence_status at_line(const struct trace_file *file, uint64_t line, cufence_status status, struct problem *problem)
{
    struct problem inner = *problem;
    return fail(file, line, status, problem, inner.text);
}

cufence_status trace_file_open(struct trace_file *file, const char *path, struct problem *problem)
{
    struct stat status;
    int is_cut;
    *file = (struct trace_file){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    file->file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file->file || fstat(fileno(file->file), &status) != 0)
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, "not a regular file; traces are read at several places");
    if (status.st_size == 0)
        return fail(file, 0, CUFENCE_ERROR_CORRUPT, problem,
                    "the file is empty: the program has launched nothing under cufence, or has not begun");
    file->writers = trace_writers_make();
    file->line = malloc(TRACE_LINE_BYTES);
    if (!file->writers || !file->line)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    cufence_status result = read_line(file, &is_cut, problem);
    if (result != CUFENCE_OK)
        return result;
    result = trace_header_read(file->line, file->size, &file->header, problem);
    file->lines = 1;
    file->next = file->size + 1;
    return result == CUFENCE_OK ? CUFENCE_OK : at_line(file, 1, result, problem);
}

void trace_file_close(struct trace_file *file)
{
    if (file->file)
        fclose(file->file);
    free(file->line);
    trace_writers_free(file->writers);
}

/* Takes the event apart that file->line has. What is only the beginning of a line ends the trace: the program was killed. */
static cufence_status take(struct trace_file *file, int is_cut, struct trace_event *event, struct problem *problem)
{
    cufence_status status = trace_event_read(file->line, file->size, event, problem);
    if (status == CUFENCE_ERROR_CORRUPT && is_cut) {
        file->is_cut = file->has_ended = 1;
        return CUFENCE_OK;
    }
    if (status != CUFENCE_OK)
        return at_line(file, file->lines, status, problem);
    if (event->kind == TRACE_END) {
        file->is_whole = file->has_ended = 1;
        file->missed = event->missed;
        trace_event_free(event);
    }
    return CUFENCE_OK;
}

cufence_status trace_file_next(struct trace_file *file, struct trace_event *event, struct trace_at *at, struct problem *problem)
{
    int is_cut;
    *event = (struct trace_event){0};
    *at = (struct trace_at){.line = file->lines + 1, .offset = file->next};
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
        trace_writers_note(file->writers, event, at->line, at->offset);
    return status;
}

cufence_status trace_file_again(struct trace_file *file, struct trace_at at, struct trace_event *event, struct problem *problem)
{
    int is_cut;
    *event = (struct trace_event){0};
    if (fseeko(file->file, (off_t)at.offset, SEEK_SET) != 0)
        return fail(file, 0, CUFENCE_ERROR_SYSTEM, problem, strerror(errno));
    cufence_status status = read_line(file, &is_cut, problem);
    if (status == CUFENCE_OK)
        status = trace_event_read(file->line, file->size, event, problem);
    return status == CUFENCE_OK ? CUFENCE_OK : at_line(file, at.line, status, problem);
}
