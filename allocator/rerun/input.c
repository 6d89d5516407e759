#include "input.h"

#include "analysis/verdict/launches.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "json/json_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT(kind, member, ...) FIELD(kind, struct rerun_input, member, #member, __VA_ARGS__)

static const struct field of_range[] = {FIELD(HEX, struct rerun_range, address, "address"),
                                        FIELD(HEX, struct rerun_range, bytes, "bytes")};
static const struct json_table range_record = TABLE_OF(struct rerun_range, of_range);
static const struct field of_input[] = {
    INPUT(HEX, device[0]),
    INPUT(HEX, device[1]),
    INPUT(NUMBER, mode, .most = RERUN_MODES - 1),
    INPUT(NUMBER, is_saved),
    INPUT(NUMBER, first_blocks),
    INPUT(TEXT, dump, .flags = REQUIRED | EVEN_EMPTY),
    INPUT(HEX, traced.code_at),
    INPUT(HEX, traced.address),
    INPUT(TRIPLE, traced.block),
    INPUT(TRIPLE, traced.thread),
    INPUT(NUMBER, image_bytes, .most = RERUN_IMAGE),
    INPUT(HEX, moved_from),
    INPUT(HEX, moved_bytes),
    INPUT(HEX, moved_to),
    INPUT(LIST, ranges, .table = &range_record, COUNT(struct rerun_input, range_count)),
    FIELD(PART, struct rerun_input, bundle, NULL, .table = &kept_bundle),
};
const struct json_table rerun_input_record = TABLE_OF(struct rerun_input, of_input);

int rerun_input_write(const struct rerun_input *input)
{
    static const struct bundle_buffer none;
    struct rerun_input told = *input;
    told.bundle.buffers = &none; /* they are asked for by address */
    told.bundle.buffer_count = 0;
    char *json = text_of_json(json_table_write(&rerun_input_record, &told), JSON_COMPACT);
    struct rerun_head head = {RERUN_MAGIC, RERUN_VERSION, json ? (uint32_t)strlen(json) : 0};
    int fd = json ? memfd_create("cufence-input", MFD_CLOEXEC) : -1;
    int is_ok = fd >= 0 && files_write(fd, &head, sizeof head) && files_write(fd, json, head.json_bytes) &&
                files_write(fd, input->image, input->image_bytes);
    if (!is_ok && fd >= 0)
        close(fd);
    free(json);
    return is_ok ? fd : -1;
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
