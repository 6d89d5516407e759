/* Checks the environment, limits, and what python3 says. */
#include "doctor.h"
#include "environment.h"

#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "fault/descriptors.h"

#include "doctor_py.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* What it means that a variable is set: to another value than "" and `fine`, or to one that holds `part`. */
static const struct row {
    const char *check, *variable, *fine, *part, *harm, *remedy;
} rows[] = {
    {"LD_PRELOAD", "LD_PRELOAD", "", "san", "",
     "unset it while you look for a GPU bug: a sanitizer has to be loaded first, and AddressSanitizer lets CUDA start only "
     "with "
     "ASAN_OPTIONS=protect_shadow_gap=0"},
    {"launches", "CUDA_LAUNCH_BLOCKING", "0", "", " makes every launch wait for its kernel",
     "unset it: cufence names the kernel without it, and the program runs at its own speed"},
    {"other tools", "CUDA_INJECTION64_PATH", "", "", " loads a tool into every CUDA program",
     "unset it while cufence runs: a tool that patches kernels, or that handles their exceptions, leaves nothing for cufence"},
};

void judge_environment(struct findings *findings, environment_lookup environment)
{
    const char *text = environment("CUFENCE_OPTIONS");
    size_t limits = findings->count[FOUND_NO];
    struct options options;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const char *value = environment(row->variable);
        if (value && *value && strcmp(value, row->fine) != 0 && strstr(value, row->part))
            found(findings, FOUND_NO, row->check, row->remedy, "%s=%s%s", row->variable, value, row->harm);
    }
    if (findings->count[FOUND_NO] == limits)
        found(findings, FOUND_YES, "environment", NULL, "no variable is in the way of launches or the preload library");
    options_default(&options);
    if (!text || !*text)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS is not set: the defaults");
    else if (options_parse(&options, text, "CUFENCE_OPTIONS") == CUFENCE_OK)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS=%s", text);
    else
        found(findings, FOUND_MISSING, "options", "correct it: `cufence options` lists what is allowed", "%s", error_detail());
}

void check_system(struct findings *findings)
{
    char path[4096];
    struct rlimit limit;
    findings_section(findings, "process and system");
    judge_environment(findings, env_get);
    environment_tell("doctor");
    if (hidden_open(path, sizeof path)) {
        hidden_close(path);
        found(findings, FOUND_YES, "dump pipe", NULL, "needs no name in the file system");
    } else {
        found(findings, FOUND_NO, "dump pipe", "set TMPDIR to a folder on a local file system that you may write to",
              "core dumps go through a named pipe in TMPDIR here");
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 256)
        found(findings, FOUND_NO, "file limit", "ulimit -n 1024",
              "%u open files (ulimit -n); CUDA opens many, cufence up to 30 more", (unsigned)limit.rlim_cur);
}

void check_python(struct findings *findings)
{
    struct alloc_conf confs[ALLOC_CONFS];
    findings_section(findings, "Python");
    /* With these set, the start-up hook would re-execute the interpreter under the preload library. */
    ask(findings, "python3",
        "cd / && exec timeout -k1 20 env -u PYTORCH_CUDA_ALLOC_CONF -u PYTORCH_ALLOC_CONF -u LD_PRELOAD -u CUFENCE_OPTIONS "
        "python3 - %s 2>&1 <<'END'\n%.*s\nEND\n",
        cufence_version_string(), (int)sizeof doctor_py, (const char *)doctor_py);
    cufence_status status = alloc_conf_rewrite_both(env_get, confs);
    const char *asking = status == CUFENCE_OK ? alloc_conf_asking(confs) : NULL;
    if (status != CUFENCE_OK)
        found(findings, FOUND_NO, "settings", "correct the variable", "%s", cufence_error_detail());
    else if (asking)
        found(findings, FOUND_YES, "settings", NULL, "%s=%s asks for cufence", asking, env_get(asking));
    else
        found(findings, FOUND_NEITHER, "settings", NULL, "PYTORCH_CUDA_ALLOC_CONF=backend:cufence turns cufence on");
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
}
