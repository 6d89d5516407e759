#include "dump_stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DUMP_LIMIT ((size_t)2 << 30) /* larger dumps are not lightweight ones */
#define FIRST_BYTES ((size_t)1 << 20)
#define LEAST_BYTES ((size_t)1 << 16) /* minimum space for one read */
#define REST_US 500
#define REST_US_SMALL 50 /* for a pipe that could not be widened: its 64 KiB fill quickly */

cufence_status dump_arm(const char *path, int flags)
{
    bool on = true;
    char file[512];
    size_t size = strlen(path) + 1;
    if (size > sizeof file)
        return error_set(CUFENCE_ERROR_OVERFLOW, "the name of the dump is too long");
    memcpy(file, path, size);
    cufence_status status =
        driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, file, &size), "cuCoredumpSetAttributeGlobal(FILE)");
    size = sizeof flags;
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size),
                              "cuCoredumpSetAttributeGlobal(GENERATION_FLAGS)");
    size = sizeof on;
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
                              "cuCoredumpSetAttributeGlobal(ENABLE_ON_EXCEPTION)");
    return status;
}

void dump_widen(int fd)
{
    static const int sizes[] = {1 << 20, 1 << 19, 1 << 18, 1 << 17}; /* begins with the default fs.pipe-max-size */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && fcntl(fd, F_SETPIPE_SZ, sizes[i]) < 0; i++)
        ;
}

/* Makes room for one more read. Returns 0 if there is none; the caller then reads and drops the rest, because the driver
 * blocks until the pipe is read. */
static int make_room(struct dump *dump)
{
    if (!dump_is_complete(dump))
        return 0;
    if (dump->capacity - dump->size >= LEAST_BYTES)
        return 1;
    size_t capacity = dump->capacity ? dump->capacity * 2 : FIRST_BYTES;
    char *grown = capacity <= DUMP_LIMIT ? realloc(dump->bytes, capacity) : NULL;
    if (!grown)
        return 0;
    dump->bytes = grown;
    dump->capacity = capacity;
    return 1;
}

enum dump_state dump_take(int fd, struct dump *dump)
{
    static char dropped[LEAST_BYTES];
    int has_room = make_room(dump);
    uint64_t begin_ns = monotonic_ns();
    ssize_t got =
        has_room ? read(fd, dump->bytes + dump->size, dump->capacity - dump->size) : read(fd, dropped, sizeof dropped);
    if (got < 0 && errno == EINTR)
        return DUMP_TAKEN;
    if (got < 0 && errno == EAGAIN)
        return DUMP_AWAITED;
    dump->end_ns = monotonic_ns();
    if (got <= 0)
        return DUMP_OVER;
    if (!dump->received)
        dump->begin_ns = begin_ns;
    dump->copying_ns += dump->end_ns - begin_ns;
    dump->received += (size_t)got;
    if (has_room)
        dump->size += (size_t)got;
    return DUMP_TAKEN;
}

void dump_rest(int fd)
{
    int waiting = 0, room = fcntl(fd, F_GETPIPE_SZ);
    if (room > 0 && ioctl(fd, FIONREAD, &waiting) == 0 && waiting < room / 2)
        usleep(room >= 1 << 20 ? REST_US : REST_US_SMALL);
}

int dump_is_complete(const struct dump *dump)
{
    return dump->size == dump->received;
}

void dump_forget(struct dump *dump)
{
    free(dump->bytes);
    *dump = (struct dump){0};
}
