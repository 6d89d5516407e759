#include "cli/environment.h"
#include "command_line.h"

#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "base/tally.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cufence_status no_memory(void)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the program's environment");
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- variables ---- */

cufence_status environment_set(const char *name, const char *value)
{
    return unsetenv(name) == 0 && setenv(name, value, 1) == 0 ? CUFENCE_OK : no_memory();
}

cufence_status environment_collect(const char *file)
{
    const char *outer = env_get("CUFENCE_COLLECT");
    char *list = NULL;
    int is_made = asprintf(&list, "%s%s%s", file, outer ? "\n" : "", outer ? outer : "") >= 0;
    cufence_status status = is_made ? environment_set("CUFENCE_COLLECT", list) : no_memory();
    free(list);
    return status;
}

/* ---- of a command around this one, from which a cleared environment (env -i) has cut us off ---- */

static FILE *open_of(pid_t process, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, file);
    return fopen(path, "re");
}

static pid_t parent_of(pid_t process)
{
    FILE *file = open_of(process, "stat");
    char text[1024] = "";
    int parent = 0;
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    const char *behind = strrchr(text, ')'); /* a name may have one, too */
    return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Returns whether the process was started with the variable. */
static int take_variable(pid_t process, const char *name)
{
    FILE *file = open_of(process, "environ");
    char *entry = NULL;
    size_t room = 0, length = strlen(name);
    int is_there = 0;
    while (file && !is_there && getdelim(&entry, &room, '\0', file) > 0)
        is_there = !strncmp(entry, name, length) && entry[length] == '=';
    is_there = is_there && environment_set(name, entry + length + 1) == CUFENCE_OK;
    free(entry);
    if (file)
        fclose(file);
    return is_there;
}

/* Gets the name of a tally that the process has open, if it has one. */
static void look_for_tally(pid_t process, char name[TALLY_NAME])
{
    char path[TALLY_NAME], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    DIR *all = opendir(path);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        ssize_t length = readlinkat(dirfd(all), entry->d_name, target, sizeof target);
        if (length >= (ssize_t)strlen(TALLY_LINK) && !memcmp(target, TALLY_LINK, strlen(TALLY_LINK)))
            snprintf(name, TALLY_NAME, "/proc/%d/fd/%.16s", (int)process, entry->d_name);
    }
    if (all)
        closedir(all);
}

void environment_adopt(void)
{
    char tally[TALLY_NAME] = "";
    pid_t process = env_get(TALLY_VARIABLE) ? 0 : getppid();
    for (; process > 0 && !take_variable(process, TALLY_VARIABLE); process = parent_of(process))
        look_for_tally(process, tally);
    if (process > 0)
        take_variable(process, "CUFENCE_COLLECT");
    else if (tally[0])
        environment_set(TALLY_VARIABLE, tally);
}

/* ---- lists ---- */

static const char *file_name(const char *path, size_t length)
{
    const char *slash = memrchr(path, '/', length);
    return slash ? slash + 1 : path;
}

static int is_same_file_name(const char *path, size_t length, const char *other)
{
    const char *name = file_name(path, length), *wanted = file_name(other, strlen(other));
    size_t size = (size_t)(path + length - name);
    return size == strlen(wanted) && !memcmp(name, wanted, size);
}

cufence_status environment_preload(const char *path)
{
    const char *at = env_get("LD_PRELOAD");
    char *list = NULL;
    size_t size;
    if (strpbrk(path, ": "))
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "%s cannot be preloaded: LD_PRELOAD takes no path with a blank or a colon; move cufence to another "
                         "folder, or run it through a symbolic link's target without them",
                         path);
    FILE *out = open_memstream(&list, &size);
    if (!out)
        return no_memory();
    fputs(path, out);
    while (at && *(at += strspn(at, ": "))) {
        size_t length = strcspn(at, ": ");
        if (!is_same_file_name(at, length, path))
            fprintf(out, ":%.*s", (int)length, at);
        at += length;
    }
    cufence_status status = fclose(out) == 0 ? environment_set("LD_PRELOAD", list) : no_memory();
    free(list);
    return status;
}

cufence_status environment_python(const char *folder)
{
    const char *old = env_get("PYTHONPATH");
    char *list = NULL;
    size_t length = strlen(folder);
    if (old && !strncmp(old, folder, length) && (old[length] == ':' || !old[length]))
        return CUFENCE_OK;
    if (asprintf(&list, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "") < 0)
        return no_memory();
    cufence_status status = environment_set("PYTHONPATH", list);
    free(list);
    return status;
}

/* ---- frameworks ---- */

#define JAX "XLA_PYTHON_CLIENT_ALLOCATOR"

cufence_status environment_frameworks(const struct alloc_conf confs[ALLOC_CONFS])
{
    static const struct {
        const char *name, *value;
    } others[] = {{JAX, "cuda_async"}, {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}, {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"}};
    cufence_status status = unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == 0 ? CUFENCE_OK : no_memory();
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++)
        status = environment_set(alloc_conf_names[i], confs[i].text);
    for (size_t i = 0; i < COUNT(others) && status == CUFENCE_OK; i++) {
        const char *chosen = env_get(others[i].name), *jax = env_get(JAX);
        int is_last = i + 1 == COUNT(others); /* JAX then does not take most of the GPU beforehand */
        if ((!chosen || !*chosen) && (!is_last || (jax && !strcmp(jax, "cuda_async"))))
            status = environment_set(others[i].name, others[i].value);
    }
    return status;
}

void environment_show(void)
{
    static const char *const names[] = {"LD_PRELOAD",
                                        "PYTHONPATH",
                                        "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_CUDA_ALLOC_CONF",
                                        JAX,
                                        "XLA_PYTHON_CLIENT_PREALLOCATE",
                                        "TF_GPU_ALLOCATOR",
                                        "CUFENCE_OPTIONS"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (env_get(names[i]))
            arguments_complain("run", 0, "%s=%s", names[i], env_get(names[i]));
}

/* ---- what nothing reads ---- */

#define PREFIX "CUFENCE_"

/* What users set comes first. */
enum { FOR_USERS = 5 };
static const char *const known[] = {"OPTIONS", "DRIVER", "SIM", "LIBRARY", "SOURCES",
                                    /* set by cufence itself */
                                    "ADAPT", "COLLECT", "RESTARTED", "PYTEST_WORKER", "TALLY",
                                    /* of ./dev, the build and the tests */
                                    "BUILD", "CUDA_INCLUDE", "PREBUILT", "PYTHONS", "RESULTS", "SANITIZER", "TORTURE_MINUTES",
                                    "YES"};
static const char *const known_families[] = {"FAIL_MALLOC", "TEST_"};

static int is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (strlen(known[i]) == length && !memcmp(known[i], name, length))
            return 1;
    for (size_t i = 0; i < COUNT(known_families); i++)
        if (!strncmp(name, known_families[i], strlen(known_families[i])))
            return 1;
    return 0;
}

/* The option that `name` stands for, or is a slip of. */
static const struct option_row *option_of(const char *name, size_t length)
{
    char key[64];
    int is_exact;
    if (length >= sizeof key)
        return NULL;
    for (size_t i = 0; i < length; i++)
        key[i] = (char)tolower((unsigned char)name[i]);
    return options_find(key, length, &is_exact);
}

/* What to do about a variable "NAME=VALUE", as a sentence. Returns 0 if nothing is wrong with it. */
static int judge(const char *entry, char remedy[160])
{
    const char *name = entry + strlen(PREFIX), *value = strchr(entry, '=');
    if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0 || !value || is_known(name, (size_t)(value - name)))
        return 0;
    size_t length = (size_t)(value - name);
    size_t variable = text_nearest(name, length, known, sizeof *known, FOR_USERS, NULL);
    const struct option_row *row = option_of(name, length);
    if (variable < FOR_USERS)
        snprintf(remedy, 160, "write " PREFIX "%s%.100s", known[variable], value);
    else if (row)
        snprintf(remedy, 160, "write CUFENCE_OPTIONS=%s%.100s", row->name, value);
    else
        snprintf(remedy, 160, "unset it: options go into CUFENCE_OPTIONS=key=value, and `cufence options` lists them");
    return 1;
}

void environment_tell(const char *command)
{
    static int has_warned; /* by the only thread */
    char remedy[160], line[400];
    const char *driver = env_get("CUFENCE_DRIVER");
    int is_programs = !strcmp(command, "run") || !strcmp(command, "hunt");
    if (!has_warned && is_programs && driver && !strcmp(driver, "sim") && !env_get(TALLY_VARIABLE))
        arguments_complain(command, 0,
                           "CUFENCE_DRIVER=sim: the simulated device is for `cufence demo` and tests only; it runs no "
                           "kernel of a GPU");
    for (char **entry = environ; !has_warned && *entry; entry++) {
        if (!judge(*entry, remedy))
            continue;
        snprintf(line, sizeof line, "%.100s: cufence does not read this variable; %s", *entry, remedy);
        text_make_plain(line);
        arguments_complain(command, 0, "%s", line);
    }
    has_warned = 1;
}
