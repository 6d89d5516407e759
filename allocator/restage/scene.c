#include "scene.h"

#include "base/error.h"
#include "base/files.h"
#include "base/reader.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The file: header, ranges, pinned memory, reserved parts, launches, arguments of each launch, name of the dump, symbol, image.
 */
struct header {
    char magic[8];
    uint32_t version, launch_count, mode, is_saved;
    uint32_t range_count, pinned_count;
    uint32_t reserved_count, is_compared;
    uint64_t access_at;
    uint8_t device[16];
    uint64_t arena_start, arena_end;
    uint64_t dump_bytes, symbol_bytes, image_bytes; /* texts with their NUL */
};

struct launch_row {
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes, is_cooperative, argument_bytes;
};

static const char magic[8] = "cufscene";

/* ---- writing ---- */

static int put_launches(int fd, const struct scene *scene)
{
    int is_ok = 1;
    for (size_t i = 0; i < scene->launch_count && is_ok; i++) {
        const struct scene_launch *launch = &scene->launches[i];
        struct launch_row row = {.shared_bytes = launch->shared_bytes,
                                 .is_cooperative = launch->is_cooperative,
                                 .argument_bytes = launch->argument_bytes};
        memcpy(row.grid, launch->grid, sizeof row.grid);
        memcpy(row.block, launch->block, sizeof row.block);
        memcpy(row.cluster, launch->cluster, sizeof row.cluster);
        is_ok = files_write(fd, &row, sizeof row);
    }
    for (size_t i = 0; i < scene->launch_count && is_ok; i++)
        is_ok = files_write(fd, scene->launches[i].arguments, scene->launches[i].argument_bytes);
    return is_ok;
}

int scene_write(const struct scene *scene)
{
    struct header header = {.version = SCENE_VERSION,
                            .launch_count = (uint32_t)scene->launch_count,
                            .mode = scene->mode,
                            .is_saved = scene->is_saved,
                            .is_compared = scene->is_compared,
                            .range_count = (uint32_t)scene->range_count,
                            .pinned_count = (uint32_t)scene->pinned_count,
                            .reserved_count = (uint32_t)scene->reserved_count,
                            .access_at = scene->access_at,
                            .arena_start = scene->arena_start,
                            .arena_end = scene->arena_end,
                            .dump_bytes = strlen(scene->dump) + 1,
                            .symbol_bytes = strlen(scene->symbol) + 1,
                            .image_bytes = scene->image_bytes};
    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.device, scene->device, sizeof header.device);
    int fd = memfd_create("cufence-scene", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (files_write(fd, &header, sizeof header) && files_write(fd, scene->ranges, scene->range_count * sizeof *scene->ranges) &&
        files_write(fd, scene->pinned, scene->pinned_count * sizeof *scene->pinned) &&
        files_write(fd, scene->reserved, scene->reserved_count * sizeof *scene->reserved) && put_launches(fd, scene) &&
        files_write(fd, scene->dump, header.dump_bytes) && files_write(fd, scene->symbol, header.symbol_bytes) &&
        files_write(fd, scene->image, scene->image_bytes))
        return fd;
    close(fd);
    return -1;
}

/* ---- reading ---- */

static int read_launches(struct reader *reader, struct scene_launch *launches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct launch_row row;
        if (!reader_copy(reader, &row, sizeof row) || row.argument_bytes > SCENE_ARGUMENTS)
            return 0;
        launches[i] = (struct scene_launch){
            .shared_bytes = row.shared_bytes, .is_cooperative = row.is_cooperative, .argument_bytes = row.argument_bytes};
        memcpy(launches[i].grid, row.grid, sizeof row.grid);
        memcpy(launches[i].block, row.block, sizeof row.block);
        memcpy(launches[i].cluster, row.cluster, sizeof row.cluster);
    }
    for (size_t i = 0; i < count; i++) {
        launches[i].arguments = reader->at;
        reader_skip(reader, launches[i].argument_bytes);
    }
    return reader->at != NULL;
}

/* Within the address space, in order and apart from each other. */
static int has_sound_reserved(const struct scene *scene)
{
    uint64_t end = scene->arena_start;
    for (size_t i = 0; i < scene->reserved_count; i++) {
        const struct scene_range *part = &scene->reserved[i];
        if (!part->bytes || part->address < end || part->address > scene->arena_end ||
            part->bytes > scene->arena_end - part->address)
            return 0;
        end = part->address + part->bytes;
    }
    return 1;
}

/* Returns a text of exactly `size` bytes with its NUL, else NULL. */
static const char *read_text(struct reader *reader, uint64_t size)
{
    struct reader text = reader_cut(reader, size);
    const char *start = (const char *)text.at;
    return start && size && strnlen(start, size) == size - 1 ? start : NULL;
}

cufence_status scene_read(const void *bytes, size_t size, struct scene *scene, struct scene_launch launches[SCENE_LAUNCHES],
                          struct problem *problem)
{
    struct reader reader = reader_of((struct span){bytes, size}, 0);
    struct header header;
    struct scene_range ranges[SCENE_RANGES], pinned[SCENE_PINNED], reserved[SCENE_RESERVED];
    if (!reader_copy(&reader, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "this is not a scene of cufence");
    if (header.version != SCENE_VERSION)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "a scene of version %u, but this cufence reads version %u",
                           header.version, SCENE_VERSION);
    if (header.range_count > SCENE_RANGES || header.pinned_count > SCENE_PINNED || header.reserved_count > SCENE_RESERVED ||
        !reader_copy(&reader, ranges, header.range_count * sizeof *ranges) ||
        !reader_copy(&reader, pinned, header.pinned_count * sizeof *pinned) ||
        !reader_copy(&reader, reserved, header.reserved_count * sizeof *reserved))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the scene is damaged");
    if (!header.launch_count || header.launch_count > SCENE_LAUNCHES || header.image_bytes > SCENE_IMAGE ||
        header.arena_start >= header.arena_end || header.mode >= SCENE_MODES ||
        !read_launches(&reader, launches, header.launch_count))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the scene is damaged");
    *scene = (struct scene){.arena_start = header.arena_start,
                            .arena_end = header.arena_end,
                            .mode = header.mode,
                            .is_saved = header.is_saved,
                            .is_compared = header.is_compared,
                            .access_at = header.access_at,
                            .dump = read_text(&reader, header.dump_bytes),
                            .symbol = read_text(&reader, header.symbol_bytes),
                            .image_bytes = header.image_bytes,
                            .launches = launches,
                            .launch_count = header.launch_count,
                            .range_count = header.range_count,
                            .pinned_count = header.pinned_count,
                            .reserved_count = header.reserved_count};
    memcpy(scene->ranges, ranges, header.range_count * sizeof *ranges);
    memcpy(scene->pinned, pinned, header.pinned_count * sizeof *pinned);
    memcpy(scene->reserved, reserved, header.reserved_count * sizeof *reserved);
    memcpy(scene->device, header.device, sizeof scene->device);
    scene->image = reader.at;
    if (!has_sound_reserved(scene) ||
        !scene_pinned_is_sound(pinned, header.pinned_count, header.arena_start, header.arena_end) || !scene->dump ||
        !scene->symbol || !scene->image_bytes || reader_left(&reader) != scene->image_bytes)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the scene is damaged");
    return CUFENCE_OK;
}

/* ---- messages ---- */

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

int stage_send(int socket, const struct stage_message *message, int fd)
{
    union control control = {0};
    struct iovec part = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        packet.msg_control = control.space;
        packet.msg_controllen = sizeof control.space;
        control.header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &packet, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message ? 0 : -1;
}

int stage_receive(int socket, struct stage_message *message, int *fd)
{
    union control control = {0};
    struct iovec part = {message, sizeof *message};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t got;
    do
        got = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *fd = -1;
    const struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    if (got == (ssize_t)sizeof *message) {
        message->text[sizeof message->text - 1] = '\0';
        return 1;
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return 0;
}

static int has_descriptor(const struct stage_message *answer)
{
    return answer->type == STAGE_GIVE || answer->type == STAGE_FILE;
}

void stage_answer(int socket, const struct stage_message *answer, int fd)
{
    struct stage_message cannot = {.type = STAGE_CANNOT, .number = (uint32_t)errno};
    stage_send(socket, has_descriptor(answer) && fd < 0 ? &cannot : answer, fd);
    if (fd >= 0)
        close(fd);
}

cufence_status stage_ask(int socket, struct stage_message *message, int *fd)
{
    const struct stage_message question = *message;
    *fd = -1;
    if (stage_send(socket, message, -1) != 0 || !stage_receive(socket, message, fd))
        return error_set(CUFENCE_ERROR_SYSTEM, "the process that faulted is gone");
    if (has_descriptor(message) ? *fd >= 0 : message->type == STAGE_ZEROS || message->type == STAGE_NONE)
        return CUFENCE_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    const char *why = has_descriptor(message)         ? "its descriptor has not arrived"
                      : message->type == STAGE_CANNOT ? strerror((int)message->number)
                                                      : NULL;
    return why ? error_set(CUFENCE_ERROR_SYSTEM, "the memory at 0x%llx could not be handed over: %s",
                           (unsigned long long)question.address, why)
               : error_set(CUFENCE_ERROR_CORRUPT, "the other process does not answer the question");
}
