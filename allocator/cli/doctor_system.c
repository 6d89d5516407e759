/* Checks the environment, limits and permissions. */
#include "doctor.h"
#include "variables.h"

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

/* Enough for the files that the driver and its libraries open with a few devices. */
#define ENOUGH_FILES 256
#define SYSLOG_ACTION_READ_ALL 3

/* ---- variables ---- */

/* Variables that override the core-dump settings which cufence makes in the driver. */
static void judge_dump_variables(struct findings *findings, environment_lookup environment)
{
    static const char *const variables[] = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_COREDUMP_FILE",
                                            "CUDA_COREDUMP_GENERATION_FLAGS", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP"};
    int count = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = environment(variables[i]);
        if (!value)
            continue;
        count++;
        found(findings, FOUND_NO, "environment", "unset it: it wins over what cufence asks the driver for", "%s=%s is set",
              variables[i], value);
    }
    if (!count)
        found(findings, FOUND_YES, "environment", NULL, "no CUDA_*COREDUMP* variable is in the way");
}

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

/* Other libraries that are loaded into every program. */
static void judge_ld_preload(struct findings *findings, environment_lookup environment)
{
    const char *value = environment("LD_PRELOAD");
    if (!value || !*value)
        found(findings, FOUND_YES, "LD_PRELOAD", NULL, "not set");
    else if (strstr(value, "libcufence_preload.so"))
        found(findings, FOUND_YES, "LD_PRELOAD", NULL, "%s: every program started here runs under cufence", value);
    else if (strstr(value, "libasan") || strstr(value, "libtsan") || strstr(value, "libclang_rt"))
        found(findings, FOUND_NO, "LD_PRELOAD",
              "unset it while you look for a GPU bug: a sanitizer has to be loaded first, and AddressSanitizer lets CUDA "
              "start only "
              "with ASAN_OPTIONS=protect_shadow_gap=0",
              "%s", value);
    else
        found(findings, FOUND_NEITHER, "LD_PRELOAD", NULL, "%s: `cufence run` puts its library first and keeps the rest",
              value);
}

static void judge_tools(struct findings *findings, environment_lookup environment)
{
    const char *blocking = environment("CUDA_LAUNCH_BLOCKING");
    const char *injected = environment("CUDA_INJECTION64_PATH");
    if (blocking && *blocking && strcmp(blocking, "0") != 0)
        found(findings, FOUND_NO, "launches",
              "unset it: cufence names the kernel without it, and the program runs at its own speed",
              "CUDA_LAUNCH_BLOCKING=%s makes every launch wait for its kernel", blocking);
    else
        found(findings, FOUND_YES, "launches", NULL, "asynchronous (CUDA_LAUNCH_BLOCKING is not set)");
    if (injected && *injected)
        found(findings, FOUND_NO, "other tools",
              "unset it while cufence runs: a tool that patches kernels, or that handles their exceptions, leaves nothing for "
              "cufence",
              "CUDA_INJECTION64_PATH=%s loads a tool into every CUDA program", injected);
}

void judge_environment(struct findings *findings, environment_lookup environment)
{
    judge_dump_variables(findings, environment);
    judge_options(findings, environment);
    judge_ld_preload(findings, environment);
    judge_tools(findings, environment);
}

void judge_variables(struct findings *findings, char *const *entries)
{
    struct variable_note note;
    for (; *entries; entries++)
        if (variables_judge(*entries, &note))
            found(findings, FOUND_NO, "unknown variable", note.remedy, "%s", note.what);
}

/* ---- the system ---- */

static void check_fifo(struct findings *findings)
{
    char folder[4096], path[4200];
    const char *temporary = env_get("TMPDIR");
    if (!temporary || !*temporary)
        temporary = "/tmp";
    int made = snprintf(folder, sizeof folder, "%s/cufence-doctor-XXXXXX", temporary) < (int)sizeof folder && mkdtemp(folder);
    int error = errno;
    if (made) {
        snprintf(path, sizeof path, "%s/fifo", folder);
        made = mkfifo(path, 0600) == 0;
        error = errno;
        unlink(path);
        rmdir(folder);
    }
    if (made)
        found(findings, FOUND_YES, "named pipe", NULL, "can be made in %s, for core dumps", temporary);
    else
        found(findings, FOUND_NO, "named pipe", "set TMPDIR to a folder on a local file system that you may write to",
              "cannot be made in %s: %s", temporary, strerror(error));
}

/* Where a pipe without a name can be had, no folder is needed. */
static void check_pipe(struct findings *findings)
{
    char path[64];
    int is_there = hidden_open(path, sizeof path);
    if (is_there)
        hidden_close(path);
    if (is_there)
        found(findings, FOUND_YES, "dump pipe", NULL, "needs no name in the file system");
    else
        check_fifo(findings);
}

static void check_address_limit(struct findings *findings)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        found(findings, FOUND_NO, "address limit", "ulimit -v unlimited", "cannot be read: %s", strerror(errno));
    else if (limit.rlim_cur == RLIM_INFINITY)
        found(findings, FOUND_YES, "address limit", NULL, "none (ulimit -v)");
    else
        found(findings, FOUND_NO, "address limit", "ulimit -v unlimited", "%llu KiB of address space (ulimit -v)",
              (unsigned long long)limit.rlim_cur >> 10);
}

static void check_file_limit(struct findings *findings)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        found(findings, FOUND_NO, "file limit", "ulimit -n 1024", "cannot be read: %s", strerror(errno));
    else if (limit.rlim_cur < ENOUGH_FILES)
        found(findings, FOUND_NO, "file limit", "ulimit -n 1024",
              "%llu open files (ulimit -n); CUDA opens many, cufence up to 30 more", (unsigned long long)limit.rlim_cur);
    else
        found(findings, FOUND_YES, "file limit", NULL, "%llu open files (ulimit -n)", (unsigned long long)limit.rlim_cur);
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
    if (!error)
        found(findings, FOUND_YES, "kernel log", NULL, "/dev/kmsg can be read");
    else if (klogctl(SYSLOG_ACTION_READ_ALL, text, sizeof text) >= 0)
        found(findings, FOUND_YES, "kernel log", NULL, "can be read as dmesg does (/dev/kmsg: %s)", strerror(error));
    else
        found(findings, FOUND_NO, "kernel log",
              "not needed while core dumps work; else run as root or with CAP_SYSLOG, or set kernel.dmesg_restrict=0",
              "/dev/kmsg cannot be read: %s", strerror(error));
}

static const char *from_environment(const char *name)
{
    return env_get(name);
}

void check_system(struct findings *findings)
{
    findings_section(findings, "process and system");
    judge_environment(findings, from_environment);
    check_pipe(findings);
    check_address_limit(findings);
    check_file_limit(findings);
    check_kernel_log(findings);
}
