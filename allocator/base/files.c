#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int files_write(int fd, const void *from, size_t size)
{
    const char *bytes = from;
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return 0;
        bytes += written;
        size -= (size_t)written;
    }
    return 1;
}

int files_make_folder(const char *folder)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return 0;
    }
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return 0;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

int files_create(const char *name)
{
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

int files_put_text(int fd, const char *text)
{
    int is_well = files_write(fd, text, strlen(text));
    return close(fd) == 0 && is_well;
}
