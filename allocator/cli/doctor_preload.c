/* Checks the preload library of `cufence run` and backend:cufence: is it installed, does it load, do its hooks work? */
#include "doctor.h"
#include "installed.h"

#include "base/env.h"

#include <cufence.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 60 /* seconds: the first start of a driver on a large machine takes several */

static const char elsewhere[] = "without it there is the C API, and cufence.enable() in Python";

void try_preload(struct preload_trial *trial)
{
    char self[PATH_MAX], preload[2 * sizeof trial->file + 32];
    const char *before = env_get("LD_PRELOAD");
    memset(trial, 0, sizeof *trial);
    if (!installed_program(self) || !installed_preload(self, trial->file))
        return;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s%s%s", trial->file, before && *before ? ":" : "", before ? before : "");
    child_run((const char *const[]){self, "doctor", "--probe", NULL}, (const char *const[]){preload, "CUFENCE_OPTIONS", NULL},
              PATIENCE, &trial->child);
}

/* Returns the reason in the loader's message about the library, "" if there is no such message. */
static void find_complaint(const char *text, char *complaint, size_t size)
{
    const char *at = strstr(text, "ld.so: object");
    complaint[0] = '\0';
    if (at && strstr(at, INSTALLED_PRELOAD))
        snprintf(complaint, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void judge_loading(struct findings *findings, const struct child *child, json_t *facts)
{
    char complaint[512];
    find_complaint(child->error, complaint, sizeof complaint);
    if (json_object_get(facts, "preload"))
        found(findings, FOUND_YES, "loading", NULL, "the loader puts it into programs (LD_PRELOAD works)");
    else if (complaint[0])
        found(findings, FOUND_NO, "loading", "reinstall cufence, built for this machine's C library and architecture", "%s",
              complaint);
    else if (child->is_timed_out)
        found(findings, FOUND_NO, "loading", "see whether nvidia-smi answers; else restart the machine's driver",
              "a program under it did not end within %d s", PATIENCE);
    else if (!child->is_started || !facts)
        found(findings, FOUND_NO, "loading",
              "run `cufence doctor --probe` with LD_PRELOAD set to the library, and report what it says",
              "a program under it has failed (status 0x%x): %.400s", (unsigned)child->status, child->error);
    else
        found(findings, FOUND_NO, "loading",
              "the loader ignores LD_PRELOAD in programs with set-uid or capabilities, in static ones and in those of "
              "another C "
              "library (musl): run without these rights, link dynamically, or use the C API",
              "LD_PRELOAD was ignored%s", getauxval(AT_SECURE) ? ": this process runs with special rights (AT_SECURE)" : "");
}

static void judge_hook(struct findings *findings, const char *what, json_t *facts, const char *way)
{
    const char *whose = json_string_value(json_object_get(facts, way));
    if (!whose)
        found(findings, FOUND_NEITHER, what, NULL, "not tried: the driver has no %s of CUDA 12", way);
    else if (strcmp(whose, "ours") == 0)
        found(findings, FOUND_YES, what, NULL, "a program that finds the driver with %s gets its memory from cufence", way);
    else
        found(findings, FOUND_MISSING, what, "reinstall cufence: library and preload library must come from one build",
              "a program that finds the driver with %s gets its memory from %s", way, whose);
}

static void judge_hooks(struct findings *findings, const struct child *child, json_t *facts)
{
    const char *problem = json_string_value(json_object_get(facts, "problem"));
    const char *version = json_string_value(json_object_get(facts, "version"));
    if (!json_object_get(facts, "preload"))
        return;
    if (problem) {
        found(findings, FOUND_NEITHER, "hooks", NULL, "not tried: %s", problem);
        return;
    }
    if (!version)
        found(findings, FOUND_MISSING, "library",
              "reinstall cufence: libcufence.so must be in the same folder as " INSTALLED_PRELOAD,
              "the preload library did not open libcufence.so: %.400s", child->error[0] ? child->error : "it does not say why");
    else if (strcmp(version, cufence_version_string()) != 0)
        found(findings, FOUND_NO, "library", "reinstall cufence: these are two installations in one place",
              "libcufence.so is version %s, this program %s", version, cufence_version_string());
    else
        found(findings, FOUND_YES, "library", NULL, "libcufence.so %s", version);
    judge_hook(findings, "hooks (dlsym)", facts, "dlsym");
    judge_hook(findings, "hooks (address)", facts, "cuGetProcAddress");
}

void judge_preload(struct findings *findings, const struct preload_trial *trial)
{
    findings_section(findings, "preload: cufence run, backend:cufence");
    if (!trial->file[0]) {
        found(findings, FOUND_NO, "preload library", elsewhere,
              INSTALLED_PRELOAD " is in none of these places, relative to this program's folder: " INSTALLED_PLACES);
        return;
    }
    if (strpbrk(trial->file, " :"))
        found(findings, FOUND_NO, "preload library", "install cufence in another folder",
              "%s: LD_PRELOAD cannot name it, because of the space or colon in it", trial->file);
    else
        found(findings, FOUND_YES, "preload library", NULL, "%s", trial->file);
    json_t *facts = json_loads(trial->child.out, 0, NULL);
    judge_loading(findings, &trial->child, facts);
    judge_hooks(findings, &trial->child, facts);
    json_decref(facts);
}
