#include "arming.h"

#include "driver/driver.h"
#include "base/aside.h"
#include "base/env.h"
#include "base/error.h"
#include "descriptors.h"
#include "program_dump.h"
#include "rerun/dump_stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_PREFIX "cufence-"
#define FIFO_NAME "core"
#define OLD_SECONDS 60
#define TRIGGER_MS 10000 /* until the driver has made its pipe, and reads it */

/* Removes the folder of a process that has ended, other than by exit(): its FIFO has no reader. A new one may have none yet. */
static void sweep_folder(int parent, const char *name)
{
    struct stat found;
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    if (fstat(folder, &found) == 0 && found.st_uid == geteuid() && found.st_mtime + OLD_SECONDS < time(NULL)) {
        int fifo = openat(folder, FIFO_NAME, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (fifo >= 0)
            close(fifo);
        else if (errno == ENXIO && unlinkat(folder, FIFO_NAME, 0) == 0)
            unlinkat(parent, name, AT_REMOVEDIR);
    }
    close(folder);
}

static void sweep(const char *base)
{
    DIR *open = opendir(base);
    for (const struct dirent *entry; open && (entry = readdir(open)) != NULL;)
        if (!strncmp(entry->d_name, FOLDER_PREFIX, sizeof FOLDER_PREFIX - 1))
            sweep_folder(dirfd(open), entry->d_name);
    if (open)
        closedir(open);
}

void dumps_remove_name(const struct dump_pipe *pipe)
{
    if (!pipe->folder[0])
        return;
    unlink(pipe->path);
    rmdir(pipe->folder);
}

static cufence_status make_folder(char folder[256])
{
    const char *base = env_get("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    sweep(base);
    int length = snprintf(folder, 256, "%s/" FOLDER_PREFIX "XXXXXX", base);
    if (length >= 0 && length < 256 && mkdtemp(folder))
        return CUFENCE_OK;
    folder[0] = '\0';
    return error_set(CUFENCE_ERROR_SYSTEM, "cannot make a folder in %s: %s; set TMPDIR to one that can be written", base,
                     strerror(errno));
}

static cufence_status make_fifo(struct dump_pipe *fifo)
{
    cufence_status made = make_folder(fifo->folder);
    if (made != CUFENCE_OK)
        return made;
    snprintf(fifo->path, sizeof fifo->path, "%s/" FIFO_NAME, fifo->folder);
    if (mkfifo(fifo->path, 0600) != 0) {
        cufence_status status = error_set(CUFENCE_ERROR_SYSTEM, "cannot make the FIFO %s: %s", fifo->path, strerror(errno));
        rmdir(fifo->folder);
        fifo->folder[0] = '\0';
        return status;
    }
    if (hidden_listen(fifo->path))
        return CUFENCE_OK;
    dumps_remove_name(fifo);
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY,
                     "there is no thread or no descriptor for the pipe with core dumps (ulimit -u, ulimit -n)");
}

void dumps_forget_pipe(const struct dump_pipe *pipe)
{
    hidden_close(pipe->path);
    dumps_remove_name(pipe);
}

/* Leaves file and flags as set: without ENABLE_ON_EXCEPTION no dump is written. */
static void disarm(void)
{
    bool off = false;
    size_t size = sizeof off;
    driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &off, &size);
}

void dumps_disarm(void)
{
    disarm();
    program_dump_hand_back();
}

/* Whether the driver has what was set: one that keeps to its variables might say that it has. */
static int is_armed(const char *path)
{
    bool is_on = false;
    char file[1024] = "";
    size_t on_size = sizeof is_on, file_size = sizeof file;
    return driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &is_on, &on_size) == CUDA_SUCCESS && is_on &&
           driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, file, &file_size) == CUDA_SUCCESS && !strcmp(file, path);
}

static cufence_status arm(const char *path)
{
    const char *variable = program_dump_variable();
    cufence_status status = dump_arm(path, CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT);
    if (!variable || (status == CUFENCE_OK && is_armed(path)))
        return status;
    return error_set(CUFENCE_ERROR_UNSUPPORTED,
                     "%s was set when the program initialised CUDA, before cufence, and overrides it; unset it, or start the "
                     "program with `cufence run`",
                     variable);
}

static cufence_status try_to_arm(struct dump_pipe *pipe)
{
    if (!driver->cuCoredumpSetAttributeGlobal)
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver (CUDA %d.%d) cannot arm core dumps; CUDA 12.1 and later can",
                         driver->version / 1000, driver->version % 1000 / 10);
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int i = 0; i < devices; i++) {
        unsigned flags;
        int is_active = 0;
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            driver->cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active)
            return error_set(CUFENCE_ERROR_UNSUPPORTED,
                             "CUDA was in use on device %d before cufence was started, and dumps must be "
                             "armed before; start cufence first",
                             i);
    }
    pipe->folder[0] = '\0';
    cufence_status status = hidden_open(pipe->path, sizeof pipe->path) ? CUFENCE_OK : make_fifo(pipe);
    if (status != CUFENCE_OK)
        return status;
    program_dump_learn();
    status = arm(pipe->path);
    if (status != CUFENCE_OK) {
        disarm();
        dumps_forget_pipe(pipe);
    }
    return status;
}

cufence_status dumps_arm(struct dump_pipe *pipe)
{
    cufence_status status = try_to_arm(pipe);
    if (status != CUFENCE_OK)
        program_dump_hand_back();
    return status;
}

int dumps_ask(void)
{
    bool on = true;
    struct dump_pipe fifo = {.end = -1};
    size_t size = sizeof fifo.path, on_size = sizeof on;
    int is_ours = !program_dump_has_trigger(), pipe = -1, unread = 2;
    if (is_ours && make_folder(fifo.folder) != CUFENCE_OK)
        return 0;
    snprintf(fifo.path, sizeof fifo.path, "%s/" FIFO_NAME, fifo.folder);
    if (is_ours) {
        size = strlen(fifo.path) + 1;
        driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_PIPE, fifo.path, &size);
        driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &on_size); /* again */
        driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_USER_TRIGGER, &on, &on_size);
    } else {
        driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, fifo.path, &size);
    }
    for (int waited = 0; pipe < 0 && waited < TRIGGER_MS; waited++, aside_sleep(1000))
        pipe = open(fifo.path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    int is_asked = pipe >= 0 && write(pipe, "1\n", 2) == 2;
    for (int waited = 0; is_asked && unread == 2 && waited < TRIGGER_MS; waited++, aside_sleep(1000))
        ioctl(pipe, FIONREAD, &unread); /* so the driver may also open it again, by its name */
    if (pipe >= 0)
        close(pipe);
    dumps_remove_name(&fifo);
    if (!is_asked)
        error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver takes no request for a dump");
    return is_asked;
}

/* ---- the end that is read ---- */

/* A program that has closed its standard streams must find them closed. */
static int above_standard(int fd)
{
    int low = fd;
    if (low < 0 || low > STDERR_FILENO)
        return low;
    fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low);
    return fd;
}

int dumps_listen(struct dump_pipe *pipe)
{
    struct stat file;
    pipe->end = above_standard(open(pipe->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (pipe->end < 0 || fstat(pipe->end, &file) != 0)
        return 0;
    pipe->device = file.st_dev;
    pipe->inode = file.st_ino;
    return 1;
}

/* The monitor's thread renews it while others look. */
static int end_of(const struct dump_pipe *pipe)
{
    return __atomic_load_n(&pipe->end, __ATOMIC_ACQUIRE);
}

static int is_ours(const struct dump_pipe *pipe)
{
    struct stat file;
    return fstat(end_of(pipe), &file) == 0 && file.st_dev == pipe->device && file.st_ino == pipe->inode;
}

int dumps_renew(struct dump_pipe *pipe)
{
    if (is_ours(pipe))
        return 1;
    int again = above_standard(open(pipe->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (again >= 0)
        __atomic_store_n(&pipe->end, again, __ATOMIC_RELEASE);
    return again >= 0;
}

void dumps_close(struct dump_pipe *pipe)
{
    if (pipe->end >= 0 && is_ours(pipe))
        close(pipe->end);
    pipe->end = -1;
}

static int count_bytes(int end)
{
    int bytes = 0;
    return ioctl(end, FIONREAD, &bytes) == 0 ? bytes : 0;
}

/* poll() and open() are cancellation points. */
int dumps_have_bytes(const struct dump_pipe *pipe)
{
    if (is_ours(pipe))
        return count_bytes(end_of(pipe)) > 0;
    if (end_of(pipe) < 0)
        return 0;
    int again = (int)syscall(SYS_openat, AT_FDCWD, pipe->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), bytes = count_bytes(again);
    if (again >= 0)
        syscall(SYS_close, again);
    return bytes > 0;
}

/* ---- the driver ---- */

int dumps_seem_begun(size_t contexts)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[64], name[16] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        count += file && fgets(name, sizeof name, file) && strncmp(name, "cuda-EvtHandlr", 14) == 0;
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return count >= contexts + 7;
}
