#include "frames.h"

#include "short_name.h"

#include "base/text.h"

#include <string.h>

#define LONGEST_ARGUMENTS 48 /* of a template */

static const char *const package_folders[] = {"/site-packages/", "/dist-packages/"};

/* Returns 1 for a frame of an installed package, of Triton in its checkout, of Python itself, of cufence, of generated code
 * ("<string>"), or of native code. */
static int is_of_library(const struct stack_frame *frame)
{
    return !frame->is_python || frame->file[0] == '<' || frames_file(frame) != frame->file ||
           strstr(frame->file, "/lib/python3.") != NULL || strstr(frame->file, "/python/triton/") != NULL ||
           strstr(frame->file, "/cufence/_") != NULL;
}

const char *frames_file(const struct stack_frame *frame)
{
    const char *file = frame->file;
    for (size_t i = 0; i < sizeof package_folders / sizeof *package_folders; i++) {
        for (const char *found; (found = strstr(file, package_folders[i])) != NULL;)
            file = found + strlen(package_folders[i]);
    }
    return file;
}

static int is_of_runner(const struct stack_frame *frame)
{
    static const char *const packages[] = {"_pytest/", "pluggy/"};
    const char *file = frames_file(frame);
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        if (frame->is_python && file != frame->file && !strncmp(file, packages[i], strlen(packages[i])))
            return 1;
    return 0;
}

size_t frames_without_runner(const struct stack_frame *frames, size_t count)
{
    size_t i = count > 0;
    while (i < count && !is_of_runner(&frames[i]))
        i++;
    return i;
}

/* What Inductor has generated has a name of its text's hash, cXYabc..., in the folder XY of its cache. */
static int is_generated(const struct stack_frame *frame)
{
    enum { HASH = 52 };
    const char *slash = frame->is_python ? strrchr(frame->file, '/') : NULL;
    return slash && slash - frame->file > 3 && slash[-3] == '/' && slash[1] == 'c' && !strncmp(slash - 2, slash + 2, 2) &&
           strspn(slash + 1, "abcdefghijklmnopqrstuvwxyz234567") == HASH && !strcmp(slash + 1 + HASH, ".py");
}

/* Whose a frame is, the more wanted the higher. */
enum owner { LIBRARYS, GENERATED, PROGRAMS };

static enum owner owner_of(const struct stack_frame *frame)
{
    return is_of_library(frame) ? LIBRARYS : is_generated(frame) ? GENERATED : PROGRAMS;
}

int frames_is_plumbing(const struct stack_frame *frame)
{
    return !frame->is_python && short_name_is_plumbing(frame->function);
}

void frames_function(const struct stack_frame *frame, char *out, size_t size)
{
    if (frame->is_python)
        text_format(out, size, "%s", frame->function);
    else
        short_name(frame->function, LONGEST_ARGUMENTS, out, size);
}

const struct stack_frame *frames_own(const struct stack_frame *frames, size_t count)
{
    for (enum owner owner = PROGRAMS; owner > LIBRARYS; owner--)
        for (size_t i = 0; i < count; i++)
            if (owner_of(&frames[i]) == owner)
                return &frames[i];
    for (size_t i = 0; i < count; i++)
        if (!frames_is_plumbing(&frames[i]))
            return &frames[i];
    return frames;
}

size_t frames_choose(const struct stack_frame *frames, size_t count, size_t lines, unsigned char *shown)
{
    enum { INNERMOST, THE_PROGRAMS, THE_GENERATED, THE_REST, PASSES };
    size_t taken = 0, plumbing = 0;
    memset(shown, 0, count);
    for (size_t i = 0; i < count; i++)
        plumbing += (size_t)frames_is_plumbing(&frames[i]);
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < count && taken < lines; i++) {
            int is_wanted = pass == INNERMOST ? !taken : (int)owner_of(&frames[i]) >= THE_REST - pass;
            if (!is_wanted || shown[i] || (plumbing < count && frames_is_plumbing(&frames[i])))
                continue;
            shown[i] = 1;
            taken++;
        }
    }
    return taken;
}
