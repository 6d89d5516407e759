#include "cli/environment.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static cufence_status no_memory(void)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the program's environment");
}

/* Prints a line, unless `words` is NULL. */
#define SAY(environment, ...)                                                                                                  \
    do {                                                                                                                       \
        if ((environment)->words)                                                                                              \
            fprintf((environment)->words, "cufence run: " __VA_ARGS__);                                                        \
    } while (0)

/* ---- variables ---- */

cufence_status environment_copy(struct environment *environment, char *const *entries, FILE *words)
{
    size_t count = 0;
    while (entries[count])
        count++;
    *environment = (struct environment){calloc(count + 1, sizeof(char *)), 0, words};
    if (!environment->entries)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        environment->entries[i] = strdup(entries[i]);
        if (!environment->entries[i])
            return no_memory();
        environment->count++;
    }
    return CUFENCE_OK;
}

void environment_free(struct environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->entries[i]);
    free(environment->entries);
    *environment = (struct environment){0};
}

/* Returns the value if the entry has that name, else NULL. */
static const char *value_of(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(entry, name, length) && entry[length] == '=' ? entry + length + 1 : NULL;
}

const char *environment_get(const struct environment *environment, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < environment->count && !value; i++)
        value = value_of(environment->entries[i], name);
    return value;
}

int environment_unset(struct environment *environment, const char *name)
{
    size_t kept = 0, count = environment->count;
    for (size_t i = 0; i < count; i++) {
        if (value_of(environment->entries[i], name))
            free(environment->entries[i]);
        else
            environment->entries[kept++] = environment->entries[i];
    }
    environment->entries[kept] = NULL;
    environment->count = kept;
    return kept < count;
}

cufence_status environment_set(struct environment *environment, const char *name, const char *value)
{
    char *entry = NULL;
    if (asprintf(&entry, "%s=%s", name, value) < 0)
        return no_memory();
    environment_unset(environment, name);
    char **entries = realloc(environment->entries, (environment->count + 2) * sizeof *entries);
    if (!entries) {
        free(entry);
        return no_memory();
    }
    environment->entries = entries;
    entries[environment->count++] = entry;
    entries[environment->count] = NULL;
    return CUFENCE_OK;
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

cufence_status environment_preload(struct environment *environment, const char *path)
{
    const char *at = environment_get(environment, "LD_PRELOAD");
    char *list = NULL;
    size_t size;
    int others = 0;

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
        if (!is_same_file_name(at, length, path)) {
            fprintf(out, ":%.*s", (int)length, at);
            others++;
        }
        at += length;
    }
    if (fclose(out)) {
        free(list);
        return no_memory();
    }
    SAY(environment, "LD_PRELOAD: put %s first%s\n", path, others ? ", before what was there" : "");
    cufence_status status = environment_set(environment, "LD_PRELOAD", list);
    free(list);
    return status;
}

cufence_status environment_python(struct environment *environment, const char *folder)
{
    const char *old = environment_get(environment, "PYTHONPATH");
    char *list = NULL;
    size_t length = strlen(folder);

    if (old && !strncmp(old, folder, length) && (old[length] == ':' || !old[length]))
        return CUFENCE_OK;
    if (asprintf(&list, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "") < 0)
        return no_memory();
    SAY(environment, "PYTHONPATH: put %s first%s\n", folder, old && *old ? ", before what was there" : "");
    cufence_status status = environment_set(environment, "PYTHONPATH", list);
    free(list);
    return status;
}

/* ---- frameworks ---- */

cufence_status environment_read_pytorch(const struct environment *environment, struct alloc_conf confs[ALLOC_CONFS])
{
    const char *texts[ALLOC_CONFS];
    for (int i = 0; i < ALLOC_CONFS; i++)
        texts[i] = environment_get(environment, alloc_conf_names[i]);
    return alloc_conf_rewrite_both(texts, confs);
}

static void say_what_was_taken(const struct environment *environment, const char *name, const struct alloc_conf *conf)
{
    if (conf->backend && strcmp(conf->backend, "cudaMallocAsync") != 0)
        SAY(environment, "%s: backend:%s replaced with backend:cudaMallocAsync\n", name, conf->backend);
    if (conf->options[0])
        SAY(environment, "%s: took the options %s\n", name, conf->options);
}

cufence_status environment_pytorch(struct environment *environment, const struct alloc_conf confs[ALLOC_CONFS])
{
    cufence_status status = CUFENCE_OK;
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++) {
        const char *name = alloc_conf_names[i];
        say_what_was_taken(environment, name, &confs[i]);
        SAY(environment, "%s=%s, so that PyTorch asks the driver for every tensor\n", name, confs[i].text);
        status = environment_set(environment, name, confs[i].text);
    }
    if (status == CUFENCE_OK && environment_unset(environment, "PYTORCH_NO_CUDA_MEMORY_CACHING"))
        SAY(environment, "PYTORCH_NO_CUDA_MEMORY_CACHING: unset, because it bypasses the back end cudaMallocAsync\n");
    return status;
}

const struct framework frameworks[FRAMEWORKS] = {
    {"JAX", "jax", "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", "asks the driver for every buffer",
     "keeps a pool of its own or maps its memory itself, where overruns are hidden", NULL},
    {"JAX", "jax", "XLA_PYTHON_CLIENT_PREALLOCATE", "false", "does not take most of the GPU beforehand",
     "takes most of the GPU's memory at its start", "cuda_async"},
    {"TensorFlow", "tensorflow", "TF_GPU_ALLOCATOR", "cuda_malloc_async", "asks the driver for every buffer",
     "keeps a pool of its own, in which overruns are hidden", NULL},
};

static cufence_status settle(struct environment *environment, const struct framework *framework)
{
    const char *chosen = environment_get(environment, framework->variable);
    if (!chosen || !*chosen) {
        SAY(environment, "%s=%s, so that %s %s\n", framework->variable, framework->value, framework->name, framework->gain);
        return environment_set(environment, framework->variable, framework->value);
    }
    if (!strcmp(chosen, framework->value))
        SAY(environment, "%s=%s: left as it was\n", framework->variable, chosen);
    else
        SAY(environment, "%s=%s: left as it was, but %s then %s; unset it\n", framework->variable, chosen, framework->name,
            framework->loss);
    return CUFENCE_OK;
}

cufence_status environment_frameworks(struct environment *environment)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < FRAMEWORKS && status == CUFENCE_OK; i++) {
        const struct framework *framework = &frameworks[i];
        if (!framework->allocator || !strcmp(environment_get(environment, framework[-1].variable), framework->allocator))
            status = settle(environment, framework);
    }
    return status;
}

void environment_coredumps(struct environment *environment)
{
    static const char *const names[] = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_COREDUMP_FILE",
                                        "CUDA_COREDUMP_GENERATION_FLAGS", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (environment_unset(environment, names[i]))
            SAY(environment, "%s: unset, because the driver prefers it to what cufence asks for; explain=off leaves it\n",
                names[i]);
}
