#include "outputs.h"

#include "arguments.h"

#include "base/env.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *option;
    int (*write)(const struct collected *collected, FILE *out);
} faces[OUTPUTS] = {
    [OUTPUT_HTML] = {"--html", face_html}, [OUTPUT_SARIF] = {"--sarif", face_sarif}, [OUTPUT_JSON] = {"--json", face_json}};

#define complain(status, ...) arguments_complain(outputs->command, status, __VA_ARGS__)

static int is_dash(const char *path)
{
    return path && !strcmp(path, "-");
}

int outputs_is_stdout(const struct outputs *outputs)
{
    for (int i = 0; i < OUTPUTS; i++)
        if (is_dash(outputs->paths[i]))
            return 1;
    return 0;
}

/* Returns 0, or the exit status after a message. */
static int check(const struct outputs *outputs)
{
    int dashes = 0;
    for (int i = 0; i < OUTPUTS; i++) {
        const char *path = outputs->paths[i];
        if (path && !*path)
            return complain(STATUS_USAGE, "%s: the file name \"\" is empty", faces[i].option);
        dashes += is_dash(path);
    }
    return dashes > 1 ? complain(STATUS_USAGE, "standard output (-) takes one document; give the others a file") : 0;
}

static int is_regular(FILE *file, struct stat *found)
{
    return file && fstat(fileno(file), found) == 0 && S_ISREG(found->st_mode);
}

/* The document that goes to the same file as a later one; -1: none does. */
static int twin_of(const struct outputs *outputs, int which)
{
    struct stat file, other;
    for (int i = 0; i < which && is_regular(outputs->files[which], &file); i++)
        if (is_regular(outputs->files[i], &other) && file.st_dev == other.st_dev && file.st_ino == other.st_ino)
            return i;
    return -1;
}

int outputs_open(struct outputs *outputs)
{
    int refusal = check(outputs);
    if (refusal)
        return refusal;
    for (int i = 0; i < OUTPUTS; i++) {
        const char *path = outputs->paths[i];
        if (!path)
            continue;
        int file = is_dash(path) ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        outputs->files[i] = file >= 0 ? fdopen(file, "w") : NULL;
        if (!outputs->files[i]) {
            refusal = complain(STATUS_USAGE, "%s %s: %s", faces[i].option, path, strerror(errno));
            if (file >= 0)
                close(file);
            return refusal;
        }
        int twin = twin_of(outputs, i);
        if (twin >= 0)
            return complain(STATUS_USAGE, "%s and %s name the same file, %s; one would overwrite the other", faces[twin].option,
                            faces[i].option, path);
    }
    return 0;
}

static int write_face(const struct outputs *outputs, int which, const struct collected *collected)
{
    FILE *out = outputs->files[which];
    int is_made = which == OUTPUT_JSON && outputs->write_json ? outputs->write_json(outputs->user, collected, out)
                                                              : faces[which].write(collected, out);
    return is_made && !ferror(out) && fflush(out) == 0;
}

int outputs_write(struct outputs *outputs, const struct collected *collected)
{
    struct stat found;
    int is_ok = 1;
    for (int i = 0; i < OUTPUTS; i++) {
        FILE *out = outputs->files[i];
        int is_file = !is_dash(outputs->paths[i]) && is_regular(out, &found);
        if (!out || (collected->is_unfinished && !is_file))
            continue;
        errno = 0;
        int is_ready = !is_file || (fseek(out, 0, SEEK_SET) == 0 && ftruncate(fileno(out), 0) == 0);
        if (is_ready && write_face(outputs, i, collected))
            continue;
        complain(0, "%s %s: %s", faces[i].option, outputs->paths[i], errno ? strerror(errno) : "the host is out of memory");
        is_ok = 0;
    }
    return is_ok;
}

int outputs_begin(struct outputs *outputs, struct collected *collected, char *const *command)
{
    collected->is_unfinished = 1;
    collected_begin(collected, command);
    int refusal = outputs_open(outputs);
    return refusal == 0 && !outputs_write(outputs, collected) ? STATUS_USAGE : refusal;
}

void outputs_close(struct outputs *outputs)
{
    struct stat found;
    for (int i = 0; i < OUTPUTS; i++) {
        FILE *out = outputs->files[i];
        if (!is_dash(outputs->paths[i]) && is_regular(out, &found) && found.st_size == 0)
            unlink(outputs->paths[i]);
        if (out)
            fclose(out);
        outputs->files[i] = NULL;
    }
}

int outputs_collect(const char *command, const char *kept, char file[PATH_MAX])
{
    const char *parent = env_get("TMPDIR");
    if (kept)
        snprintf(file, PATH_MAX, "%s", kept);
    else
        snprintf(file, PATH_MAX, "%s/cufence-%s-XXXXXX", parent && *parent ? parent : "/tmp", command);
    int made = kept ? files_create(file) : mkostemp(file, O_CLOEXEC);
    if (made < 0)
        return arguments_complain(command, STATUS_UNFIT,
                                  "no file for reports: %s: %s; set TMPDIR to a folder that can be written", file,
                                  strerror(errno));
    close(made);
    return setenv("CUFENCE_COLLECT", file, 1) == 0 ? 0 : arguments_complain(command, STATUS_UNFIT, "no host memory");
}
