/* `cufence replay --under TOOL`: the same launch, with the stage as the tool's child. */
#include "cli.h"
#include "replay.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((uint64_t)2 << 20) /* what the device maps at once */

enum { MOST_WORDS = 64 };

/* Splits a command line at its blanks, and adds the stage's own words. Returns 0 if it has no word or too many. */
static int make_command(char *tool, char *words[MOST_WORDS + 5], struct replay *replay, char *socket)
{
    static char arguments[] = "--args", stage[] = "stage";
    size_t count = 0;
    int has_arguments = 0;
    for (char *at = strtok(tool, " \t"); at && count < MOST_WORDS; at = strtok(NULL, " \t")) {
        has_arguments |= !strcmp(at, arguments);
        words[count++] = at;
    }
    if (!count || count == MOST_WORDS)
        return 0;
    const char *name = strrchr(words[0], '/');
    if (!has_arguments && !strcmp(name ? name + 1 : words[0], "cuda-gdb"))
        words[count++] = arguments; /* or it takes the stage's word for a core file */
    words[count++] = replay->program;
    words[count++] = stage;
    words[count++] = socket;
    words[count] = NULL;
    return 1;
}

/* Reserves only what lies at the buffers and a page around them: the tool has memory of its own, which may be anywhere else.
 * The buffers are in order. */
static void reserve_less(struct scene *scene, const struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &bundle->buffers[i];
        uint64_t start = buffer->mapping_start - scene->arena_start < PAGE ? scene->arena_start : buffer->mapping_start - PAGE;
        uint64_t end = scene->arena_end - buffer->mapping_end < PAGE ? scene->arena_end : buffer->mapping_end + PAGE;
        struct scene_range *last = scene->reserved_count ? &scene->reserved[scene->reserved_count - 1] : NULL;
        if (last && (start <= last->address + last->bytes || scene->reserved_count == SCENE_RESERVED))
            last->bytes = end - last->address;
        else
            scene->reserved[scene->reserved_count++] = (struct scene_range){start, end - start};
    }
}

/* Sends the scene and answers questions until the tool's last process has closed the socket. Returns 1 if the kernel failed. */
static int converse(struct replay *replay, int socket)
{
    struct stage_message message = {.type = STAGE_SCENE};
    int fd, has_launched = 0, has_failed = 0, scene = scene_write(&replay->scene);
    if (scene < 0)
        return 0;
    stage_send(socket, &message, scene);
    close(scene);
    while (stage_receive(socket, &message, &fd)) {
        if (fd >= 0)
            close(fd);
        has_launched |= message.type == STAGE_LAUNCHES;
        if (message.type == STAGE_FAILED) {
            fprintf(stderr, "cufence replay: %s: %s\n", has_launched ? "the launch failed" : "cannot be launched",
                    message.text);
            has_failed = has_launched;
        }
        if (message.type != STAGE_NEED && message.type != STAGE_RESULT)
            continue;
        struct stage_message to = {.type = STAGE_NONE};
        fd = message.type == STAGE_RESULT ? compare_answer(replay, &message, &to)
                                          : opened_answer(&replay->opened, &message, &to);
        stage_send(socket, &to, fd);
        if (fd >= 0)
            close(fd);
    }
    return has_failed;
}

int replay_under(struct replay *replay, const char *tool)
{
    char *copy = strdup(tool), *words[MOST_WORDS + 5], socket[16];
    int sockets[2], status = 0;
    if (replay->scene.mode != SCENE_ZEROS)
        replay->scene.mode = SCENE_BARE;
    replay->scene.image = replay->opened.image.at; /* as it was, for the tool to read */
    replay->scene.image_bytes = replay->opened.image.size;
    replay->scene.dump = "";
    reserve_less(&replay->scene, replay->opened.bundle);
    if (!copy || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        free(copy);
        return arguments_complain("replay", 1, "socketpair: %s", strerror(errno));
    }
    int passed = dup(sockets[1]); /* without close-on-exec */
    snprintf(socket, sizeof socket, "%d", passed);
    close(sockets[1]);
    if (!make_command(copy, words, replay, socket)) {
        free(copy);
        return arguments_complain("replay", CLI_USAGE, "--under '%.80s' is no command, such as compute-sanitizer", tool);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[0], words);
        fprintf(stderr, "cufence replay: cannot run %s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    close(passed);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is the tool's */
    compare_begin(replay);
    int has_failed = pid > 0 && converse(replay, sockets[0]);
    compare_end(replay);
    close(sockets[0]);
    free(copy);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return arguments_complain("replay", 1, "fork: %s", strerror(errno));
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!has_failed && replay->comparison.compared)
        compare_tell(replay);
    return has_failed ? -1 : ended ? ended : replay->comparison.different ? REPLAY_DIFFERS : 0;
}
