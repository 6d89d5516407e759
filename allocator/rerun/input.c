#include "input.h"

#include "analysis/verdict/arguments.h"
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

static int put_launches(int fd, const struct rerun_input *input)
{
    int is_ok = 1;
    for (size_t i = 0; i < input->launch_count && is_ok; i++) {
        const struct rerun_launch *launch = &input->launches[i];
        struct launch_row row = {.shared_bytes = launch->shared_bytes,
                                 .is_cooperative = launch->is_cooperative,
                                 .argument_bytes = launch->argument_bytes};
        memcpy(row.grid, launch->grid, sizeof row.grid);
        memcpy(row.block, launch->block, sizeof row.block);
        memcpy(row.cluster, launch->cluster, sizeof row.cluster);
        is_ok = files_write(fd, &row, sizeof row);
    }
    for (size_t i = 0; i < input->launch_count && is_ok; i++)
        is_ok = files_write(fd, input->launches[i].arguments, input->launches[i].argument_bytes);
    return is_ok;
}

int rerun_input_write(const struct rerun_input *input)
{
    struct header header = {.version = RERUN_VERSION,
                            .launch_count = (uint32_t)input->launch_count,
                            .mode = input->mode,
                            .is_saved = input->is_saved,
                            .is_compared = input->is_compared,
                            .range_count = (uint32_t)input->range_count,
                            .pinned_count = (uint32_t)input->pinned_count,
                            .reserved_count = (uint32_t)input->reserved_count,
                            .access_at = input->access_at,
                            .arena_start = input->arena_start,
                            .arena_end = input->arena_end,
                            .dump_bytes = strlen(input->dump) + 1,
                            .symbol_bytes = strlen(input->symbol) + 1,
                            .image_bytes = input->image_bytes};
    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.device, input->device, sizeof header.device);
    int fd = memfd_create("cufence-input", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (files_write(fd, &header, sizeof header) && files_write(fd, input->ranges, input->range_count * sizeof *input->ranges) &&
        files_write(fd, input->pinned, input->pinned_count * sizeof *input->pinned) &&
        files_write(fd, input->reserved, input->reserved_count * sizeof *input->reserved) && put_launches(fd, input) &&
        files_write(fd, input->dump, header.dump_bytes) && files_write(fd, input->symbol, header.symbol_bytes) &&
        files_write(fd, input->image, input->image_bytes))
        return fd;
    close(fd);
    return -1;
}

/* ---- reading ---- */

static int read_launches(struct reader *reader, struct rerun_launch *launches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct launch_row row;
        if (!reader_copy(reader, &row, sizeof row) || row.argument_bytes > RERUN_ARGUMENTS)
            return 0;
        launches[i] = (struct rerun_launch){
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
static int has_sound_reserved(const struct rerun_input *input)
{
    uint64_t end = input->arena_start;
    for (size_t i = 0; i < input->reserved_count; i++) {
        const struct rerun_range *part = &input->reserved[i];
        if (!part->bytes || part->address < end || part->address > input->arena_end ||
            part->bytes > input->arena_end - part->address)
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

cufence_status rerun_input_read(const void *bytes, size_t size, struct rerun_input *input,
                                struct rerun_launch launches[RERUN_LAUNCHES], struct problem *problem)
{
    struct reader reader = reader_of((struct span){bytes, size}, 0);
    struct header header;
    struct rerun_range ranges[RERUN_RANGES], pinned[RERUN_PINNED], reserved[RERUN_RESERVED];
    if (!reader_copy(&reader, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "this is not an input of cufence");
    if (header.version != RERUN_VERSION)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "an input of version %u, but this cufence reads version %u",
                           header.version, RERUN_VERSION);
    if (header.range_count > RERUN_RANGES || header.pinned_count > RERUN_PINNED || header.reserved_count > RERUN_RESERVED ||
        !reader_copy(&reader, ranges, header.range_count * sizeof *ranges) ||
        !reader_copy(&reader, pinned, header.pinned_count * sizeof *pinned) ||
        !reader_copy(&reader, reserved, header.reserved_count * sizeof *reserved))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the input is damaged");
    if (!header.launch_count || header.launch_count > RERUN_LAUNCHES || header.image_bytes > RERUN_IMAGE ||
        header.arena_start >= header.arena_end || header.mode >= RERUN_MODES ||
        !read_launches(&reader, launches, header.launch_count))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the input is damaged");
    *input = (struct rerun_input){.arena_start = header.arena_start,
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
    memcpy(input->ranges, ranges, header.range_count * sizeof *ranges);
    memcpy(input->pinned, pinned, header.pinned_count * sizeof *pinned);
    memcpy(input->reserved, reserved, header.reserved_count * sizeof *reserved);
    memcpy(input->device, header.device, sizeof input->device);
    input->image = reader.at;
    if (!has_sound_reserved(input) ||
        !rerun_pinned_is_sound(pinned, header.pinned_count, header.arena_start, header.arena_end) || !input->dump ||
        !input->symbol || !input->image_bytes || reader_left(&reader) != input->image_bytes)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the input is damaged");
    return CUFENCE_OK;
}

/* ---- what is described ---- */

static int is_chosen(const struct rerun_input *input, uint64_t address)
{
    for (size_t i = 0; i < input->range_count; i++)
        if (input->ranges[i].address == address)
            return 1;
    return 0;
}

void rerun_input_describe(struct rerun_input *input, const struct rerun_launch *launch, const struct fault_memory *memory)
{
    for (size_t i = 0; i + 8 <= launch->argument_bytes && input->range_count < RERUN_RANGES; i += 8) {
        uint64_t word;
        memcpy(&word, launch->arguments + i, sizeof word);
        const cufence_buffer *buffer = word_buffer(memory, word, 0);
        uint64_t bytes = buffer ? buffer->address + buffer->size - word : 0;
        if (bytes && !buffer->freed_ns && !is_chosen(input, word))
            input->ranges[input->range_count++] = (struct rerun_range){word, bytes};
    }
}

/* ---- messages ---- */

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

int rerun_send(int socket, const struct rerun_message *message, int fd)
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

int rerun_receive(int socket, struct rerun_message *message, int *fd)
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

static int has_descriptor(const struct rerun_message *answer)
{
    return answer->type == MESSAGE_GIVE || answer->type == MESSAGE_FILE;
}

void rerun_answer(int socket, const struct rerun_message *answer, int fd)
{
    struct rerun_message cannot = {.type = MESSAGE_CANNOT, .number = (uint32_t)errno};
    rerun_send(socket, has_descriptor(answer) && fd < 0 ? &cannot : answer, fd);
    if (fd >= 0)
        close(fd);
}

cufence_status rerun_ask(int socket, struct rerun_message *message, int *fd)
{
    const struct rerun_message question = *message;
    *fd = -1;
    if (rerun_send(socket, message, -1) != 0 || !rerun_receive(socket, message, fd))
        return error_set(CUFENCE_ERROR_SYSTEM, "the process that faulted is gone");
    if (has_descriptor(message) ? *fd >= 0 : message->type == MESSAGE_ZEROS || message->type == MESSAGE_NONE)
        return CUFENCE_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    const char *why = has_descriptor(message)           ? "its descriptor has not arrived"
                      : message->type == MESSAGE_CANNOT ? strerror((int)message->number)
                                                        : NULL;
    return why ? error_set(CUFENCE_ERROR_SYSTEM, "the memory at 0x%llx could not be handed over: %s",
                           (unsigned long long)question.address, why)
               : error_set(CUFENCE_ERROR_CORRUPT, "the other process does not answer the question");
}
