#include "files.h"

#include "env.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_LINE 1000000
#define LARGEST ((off_t)64 << 20) /* bytes: a source file has less */

/* A path may name anything: a pipe would hang, a device may do something. */
static FILE *open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *file =
        fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= LARGEST ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* A compiler that was started in the file's folder keeps the name alone: that is looked for in CUFENCE_SOURCES too. */
static FILE *open_source(const char *path)
{
    char in_folder[4096];
    FILE *file = open_regular(path);
    const char *folder = file || *path == '/' ? NULL : env_get("CUFENCE_SOURCES");
    if (folder && *folder && snprintf(in_folder, sizeof in_folder, "%s/%s", folder, path) < (int)sizeof in_folder)
        file = open_regular(in_folder);
    return file;
}

/* Reads the rest of a line, of which `text` gets what fits. Returns 0 at the end of the file. */
static int read_line(FILE *file, char *text, size_t size)
{
    size_t length = 0;
    int letter;
    while ((letter = getc_unlocked(file)) != EOF && letter != '\n') {
        if (length + 1 < size)
            text[length++] = letter == '\t' ? ' ' : (char)letter;
    }
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\r'))
        length--;
    if (length + 1 == size) { /* cut: not within a letter */
        while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
            length--;
        length -= length && (unsigned char)text[length - 1] >= 0xc0;
    }
    text[length] = '\0';
    return letter != EOF || length;
}

size_t source_read(const char *path, int line, struct source_line out[SOURCE_LINES])
{
    const int first = line - SOURCE_LINES / 2, last = line + SOURCE_LINES / 2;
    struct source_line found = {0};
    size_t count = 0;
    FILE *file = path && line > 0 && line <= LAST_LINE ? open_source(path) : NULL;
    if (!file)
        return 0;
    while (found.number < last && read_line(file, found.text, sizeof found.text)) {
        if (++found.number >= first)
            out[count++] = found;
    }
    fclose(file);
    return found.number < line ? 0 : count; /* too short: another file, or another version of it */
}
