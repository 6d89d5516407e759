/* Checks the environment, limits and permissions. */
#include "doctor.h"
#include "environment.h"

#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "witness/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSLOG_ACTION_READ_ALL 3

/* ---- variables ---- */

#define SANITIZER                                                                                                              \
    "unset it while you look for a GPU bug: a sanitizer has to be loaded first, and AddressSanitizer lets CUDA start only "    \
    "with "                                                                                                                    \
    "ASAN_OPTIONS=protect_shadow_gap=0"

/* What it means that a variable is set: to another value than "" and `fine`, if that is given; or to one that holds `part`. */
static const struct row {
    const char *check, *variable, *fine, *part;
    enum verdict_mark mark;
    const char *harm, *remedy;
} rows[] = {
    {"LD_PRELOAD", "LD_PRELOAD", NULL, "libcufence_preload.so", FOUND_YES, ": every program started here runs under cufence",
     NULL},
    {"LD_PRELOAD", "LD_PRELOAD", NULL, "libasan", FOUND_NO, "", SANITIZER},
    {"LD_PRELOAD", "LD_PRELOAD", NULL, "libtsan", FOUND_NO, "", SANITIZER},
    {"LD_PRELOAD", "LD_PRELOAD", NULL, "libclang_rt", FOUND_NO, "", SANITIZER},
    {"launches", "CUDA_LAUNCH_BLOCKING", "0", NULL, FOUND_NO, " makes every launch wait for its kernel",
     "unset it: cufence names the kernel without it, and the program runs at its own speed"},
    {"other tools", "CUDA_INJECTION64_PATH", "", NULL, FOUND_NO, " loads a tool into every CUDA program",
     "unset it while cufence runs: a tool that patches kernels, or that handles their exceptions, leaves nothing for cufence"},
    {"caching", "PYTORCH_NO_CUDA_MEMORY_CACHING", NULL, NULL, FOUND_NO, " is set",
     "unset it, as `cufence run` does: cufence guards every tensor without it, and with it each one costs a cudaMalloc"},
};

static void judge_options(struct findings *findings, environment_lookup environment)
{
    const char *text = environment("CUFENCE_OPTIONS");
    struct options options;
    options_default(&options);
    if (!text || !*text)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS is not set: the defaults");
    else if (options_parse(&options, text, "CUFENCE_OPTIONS") == CUFENCE_OK)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS=%s", text);
    else
        found(findings, FOUND_MISSING, "options", "correct it: `cufence options` lists what is allowed", "%s", error_detail());
}

void judge_environment(struct findings *findings, environment_lookup environment)
{
    size_t limits = findings->count[FOUND_NO];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const char *value = environment(row->variable);
        if (value && (!row->fine || (*value && strcmp(value, row->fine) != 0)) && (!row->part || strstr(value, row->part)))
            found(findings, row->mark, row->check, row->remedy, "%s=%s%s", row->variable, value, row->harm);
    }
    if (findings->count[FOUND_NO] == limits)
        found(findings, FOUND_YES, "environment", NULL, "no variable is in the way of launches or the preload library");
    judge_options(findings, environment);
}

void judge_variables(struct findings *findings, char *const *entries)
{
    struct variable_note note;
    for (; *entries; entries++)
        if (environment_judge(*entries, &note))
            found(findings, FOUND_NO, "unknown variable", note.remedy, "%s", note.what);
}

/* ---- the system ---- */

/* A pipe without a name, else a named one in a folder. */
static void check_pipe(struct findings *findings)
{
    char path[4200], folder[4096];
    const char *temporary = env_get("TMPDIR");
    if (hidden_open(path, sizeof path)) {
        hidden_close(path);
        found(findings, FOUND_YES, "dump pipe", NULL, "needs no name in the file system");
        return;
    }
    snprintf(folder, sizeof folder, "%s/cufence-doctor-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    int is_made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof path, "%s/fifo", folder);
    is_made = is_made && mkfifo(path, 0600) == 0;
    if (is_made)
        found(findings, FOUND_YES, "named pipe", NULL, "can be made, for core dumps: %s", path);
    else
        found(findings, FOUND_NO, "named pipe", "set TMPDIR to a folder on a local file system that you may write to",
              "%s cannot be made: %s", path, strerror(errno));
    unlink(path);
    rmdir(folder);
}

static void check_limits(struct findings *findings)
{
    static const struct {
        int limit;
        rlim_t enough;
        const char *check, *remedy, *of;
    } limits[] = {
        {RLIMIT_AS, RLIM_INFINITY, "address limit", "ulimit -v unlimited", "bytes of address space (ulimit -v)"},
        {RLIMIT_NOFILE, 256, "file limit", "ulimit -n 1024", "open files (ulimit -n); CUDA opens many, cufence up to 30 more"},
    };
    struct rlimit limit;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (getrlimit((__rlimit_resource_t)limits[i].limit, &limit) == 0 && limit.rlim_cur < limits[i].enough)
            found(findings, FOUND_NO, limits[i].check, limits[i].remedy, "%llu %s", (unsigned long long)limit.rlim_cur,
                  limits[i].of);
}

/* Reads the kernel log without consuming it. Returns 0 or an errno value. */
static int try_kmsg(void)
{
    char first[8192];
    int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (log < 0)
        return errno;
    int error = read(log, first, sizeof first) >= 0 || errno == EAGAIN || errno == EPIPE ? 0 : errno;
    close(log);
    return error;
}

static void check_kernel_log(struct findings *findings)
{
    char text[4096];
    int error = try_kmsg();
    if (!error || klogctl(SYSLOG_ACTION_READ_ALL, text, sizeof text) >= 0)
        found(findings, FOUND_YES, "kernel log", NULL, "can be read%s", error ? " as dmesg does" : "");
    else
        found(findings, FOUND_NO, "kernel log",
              "not needed while core dumps work; else run as root or with CAP_SYSLOG, or set kernel.dmesg_restrict=0",
              "/dev/kmsg cannot be read: %s", strerror(error));
}

void check_system(struct findings *findings)
{
    findings_section(findings, "process and system");
    judge_environment(findings, env_get);
    judge_variables(findings, environ);
    check_pipe(findings);
    check_limits(findings);
    check_kernel_log(findings);
}
