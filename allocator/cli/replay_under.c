/* `cufence replay --under TOOL`: the same launch, with the rerun process as the tool's child. */
#include "arguments.h"
#include "replay.h"

#include "analysis/sass/fence.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#define NOT_FOUND 127 /* the status of shells for that */

/* A debugger takes that process's first word for a core file, unless it is told that these are the program's arguments. */
static int is_debugger(const char *command)
{
    size_t length = strlen(command);
    return length >= 3 && !strcmp(command + length - 3, "gdb");
}

/* Adds that process's own words to those of the tool. Returns NULL if the host has no memory. */
static char **make_command(const wordexp_t *tool, struct replay *replay, char *socket)
{
    static char arguments[] = "--args", subcommand[] = "rerun";
    size_t count = tool->we_wordc;
    int has_arguments = 0;
    char **words = malloc((count + 5) * sizeof *words);
    if (!words)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        words[i] = tool->we_wordv[i];
        has_arguments |= !strcmp(words[i], arguments);
    }
    if (!has_arguments && is_debugger(words[0]))
        words[count++] = arguments;
    words[count++] = replay->program;
    words[count++] = subcommand;
    words[count++] = socket;
    words[count] = NULL;
    return words;
}

/* Reserves only what lies at the buffers and a page around them: the tool has memory of its own, which may be anywhere else.
 * The buffers are in order. */
static void reserve_less(struct rerun_input *input, const struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &bundle->buffers[i];
        uint64_t start = (buffer->mapping_start - REPLAY_PAGE) & ~(REPLAY_UNIT - 1),
                 end = (buffer->mapping_end + REPLAY_PAGE + REPLAY_UNIT - 1) & ~(REPLAY_UNIT - 1);
        start = start < input->arena_start ? input->arena_start : start;
        end = end > input->arena_end ? input->arena_end : end;
        struct rerun_range *last = input->reserved_count ? &input->reserved[input->reserved_count - 1] : NULL;
        if (last && (start <= last->address + last->bytes || input->reserved_count == RERUN_RESERVED))
            last->bytes = end - last->address;
        else
            input->reserved[input->reserved_count++] = (struct rerun_range){start, end - start};
    }
}

/* How far the rerun process has come. */
enum course { COURSE_NOT_BEGUN, COURSE_REFUSED, COURSE_LAUNCHED, COURSE_FAILED, COURSE_DONE };

/* Sends the input and answers questions until the tool's last process has closed the socket. */
static enum course converse(struct replay *replay, int socket)
{
    struct rerun_message message = {.type = MESSAGE_INPUT};
    enum course course = COURSE_NOT_BEGUN;
    int fd, input = rerun_input_write(&replay->input);
    if (input < 0)
        return course;
    rerun_send(socket, &message, input);
    close(input);
    while (rerun_receive(socket, &message, &fd)) {
        if (fd >= 0)
            close(fd);
        if (message.type == MESSAGE_LAUNCHES)
            course = COURSE_LAUNCHED;
        if (message.type == MESSAGE_DONE)
            course = COURSE_DONE;
        if (message.type == MESSAGE_FAILED) {
            course = course == COURSE_LAUNCHED ? COURSE_FAILED : COURSE_REFUSED;
            fprintf(stderr, "cufence replay: %s: %s\n", course == COURSE_FAILED ? "the launch failed" : "cannot be launched",
                    message.text);
        }
        if (message.type != MESSAGE_NEED && message.type != MESSAGE_RESULT)
            continue;
        struct rerun_message to = {.type = MESSAGE_NONE};
        fd = replay_answer(replay, &message, &to);
        rerun_answer(socket, &to, fd);
    }
    return course;
}

/* Returns the exit status, -1 if the launch failed. */
static int tell(const struct replay *replay, const char *tool, enum course course, int ended)
{
    if (course == COURSE_FAILED)
        return -1;
    if (course == COURSE_NOT_BEGUN && ended != NOT_FOUND)
        fprintf(stderr, "cufence replay: %s ended before the launch\n", tool);
    if (course == COURSE_LAUNCHED)
        fprintf(stderr, "cufence replay: the process ended in the launch\n");
    int is_compared = replay->opened.bundle->has_outputs && replay->input.is_compared;
    if (course == COURSE_DONE && !is_compared && !replay->is_json)
        printf("cufence replay: the launch did not fault\n");
    if (course == COURSE_DONE && is_compared)
        compare_tell(replay);
    if (ended || course == COURSE_LAUNCHED) /* as a debugger may wish */
        return ended;
    return course != COURSE_DONE ? 1 : replay->comparison.different ? REPLAY_DIFFERS : 0;
}

static int run_tool(struct replay *replay, const wordexp_t *tool)
{
    char socket[16];
    int sockets[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return arguments_complain("replay", 1, "socketpair: %s", strerror(errno));
    int passed = dup(sockets[1]); /* without close-on-exec */
    snprintf(socket, sizeof socket, "%d", passed);
    close(sockets[1]);
    char **words = make_command(tool, replay, socket);
    fflush(stdout);
    pid_t pid = words ? fork() : -1;
    if (pid == 0) {
        execvp(words[0], words);
        fprintf(stderr, "cufence replay: cannot run %s: %s\n", words[0], strerror(errno));
        _exit(NOT_FOUND);
    }
    close(passed);
    free(words);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is the tool's */
    compare_begin(replay);
    enum course course = pid > 0 ? converse(replay, sockets[0]) : COURSE_NOT_BEGUN;
    compare_end(replay);
    close(sockets[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return arguments_complain("replay", 1, "fork: %s", strerror(errno));
    return tell(replay, tool->we_wordv[0], course, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* A debugger sees no fault of warps that have exited, so it gets the code with barriers, if they fit. Others get the module as
 * it was. */
static void take_image_for(const char *tool, struct replay *replay)
{
    struct rerun_input *input = &replay->input;
    struct problem ignored;
    struct fence fence;
    size_t size = input->image_bytes;
    uint8_t *copy = is_debugger(tool) ? malloc(size) : NULL;
    if (copy)
        memcpy(copy, input->image, size);
    if (copy && fence_put(&copy, &size, input->symbol, FENCE_NO_ACCESS, &fence, &ignored) == CUFENCE_OK) {
        free(replay->image);
        input->image = replay->image = copy;
        input->image_bytes = size;
        return;
    }
    free(copy);
    input->image = replay->opened.image.at;
    input->image_bytes = replay->opened.image.size;
}

int replay_under(struct replay *replay, const char *tool)
{
    wordexp_t words;
    if (replay->input.mode != RERUN_ZEROS)
        replay->input.mode = RERUN_BARE;
    replay->input.dump = "";
    if (strstr(tool, "initcheck") && replay->opened.bundle->filled) { /* nor is anything read before the launch or after it */
        replay->input.unwritten = replay->opened.bundle->filled;
        replay->input.range_count = 0;
        replay->input.is_compared = 0;
    }
    reserve_less(&replay->input, replay->opened.bundle);
    int failed = wordexp(tool, &words, WRDE_NOCMD);
    if (failed || !words.we_wordc) {
        if (!failed)
            wordfree(&words);
        return arguments_complain("replay", STATUS_USAGE, "--under '%.80s' is not a command, such as compute-sanitizer%s", tool,
                                  failed == WRDE_BADCHAR ? "; | & ; < > ( ) { } need quotes in it" : "");
    }
    take_image_for(words.we_wordv[0], replay);
    int status = run_tool(replay, &words);
    wordfree(&words);
    return status;
}
