#include "saved.h"

#include "analysis/snapshot/npy.h"
#include "base/files.h"
#include "base/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int has_failed;

void saved_fail(const char *path)
{
    output_say("==%d== cufence: save_values: cannot write %s: %s\n", (int)getpid(), path, strerror(errno));
    has_failed = 1;
}

int saved_has_failed(void)
{
    return has_failed;
}

static int put(const char *path, const void *first, size_t first_size, const void *bytes, uint64_t size)
{
    int fd = files_create(path);
    int is_well = fd >= 0 && files_write(fd, first, first_size) && files_write(fd, bytes, size);
    if ((fd >= 0 && close(fd) != 0) || !is_well) {
        saved_fail(path);
        return 0;
    }
    return 1;
}

int saved_put_array(const char *path, enum value_type type, const void *bytes, uint64_t size)
{
    char header[NPY_HEADER];
    enum value_type written = type == VALUE_TYPES ? VALUE_UINT8 : type;
    npy_write(written, size / value_width(written), header);
    return put(path, header, sizeof header, bytes, size);
}

int saved_put(const char *path, const void *bytes, size_t size)
{
    if (bytes)
        return put(path, bytes, 0, bytes, size);
    errno = ENOMEM;
    saved_fail(path);
    return 0;
}
