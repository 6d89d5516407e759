#include "saving.h"

#include "base/files.h"
#include "base/reader.h"
#include "launch/pinned_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* Keeps the first reason. */
static void leave_out(struct copies *copies, const char *why, uint64_t address)
{
    if (!copies->left_out[0])
        snprintf(copies->left_out, sizeof copies->left_out, "an argument points to %s (0x%llx), which is not handed over", why,
                 (unsigned long long)address);
}

static int is_taken(const struct copies *copies, uint64_t address)
{
    for (size_t i = 0; i < copies->count; i++)
        if (address - copies->pieces[i].address < copies->pieces[i].size)
            return 1;
    return 0;
}

/* write() copies, because it fails where nothing is mapped any more: another thread may have freed the memory. */
static void copy(struct copies *copies, const struct pinned *memory)
{
    int file = memfd_create("cufence-pinned", MFD_CLOEXEC);
    if (file < 0) {
        char why[100];
        snprintf(why, sizeof why, "pinned host memory, which cannot be copied: %s", strerror(errno));
        leave_out(copies, why, memory->address);
        return;
    }
    if (!files_write(file, (const void *)(uintptr_t)memory->address, memory->bytes)) {
        leave_out(copies, "pinned host memory that cannot be read", memory->address);
        close(file);
        return;
    }
    size_t at = copies->count++;
    for (; at && copies->pieces[at - 1].address > memory->address; at--) {
        copies->pieces[at] = copies->pieces[at - 1];
        copies->files[at] = copies->files[at - 1];
    }
    copies->pieces[at] = bundle_pinned_of(memory->address, memory->bytes);
    copies->files[at] = file;
    copies->total += memory->bytes;
}

static void take(struct copies *copies, const struct pinned *memory)
{
    char why[80];
    if (memory->kind == PINNED_MANAGED) {
        leave_out(copies, "managed memory", memory->address);
    } else if (memory->kind == PINNED_DEVICE) {
        leave_out(copies, "memory of another device", memory->address);
    } else if (memory->bytes > RERUN_PINNED_BYTES - copies->total || copies->count == RERUN_PINNED) {
        snprintf(why, sizeof why, "more than %llu MiB of pinned host memory, or %d blocks of it",
                 (unsigned long long)(RERUN_PINNED_BYTES / MIB), RERUN_PINNED);
        leave_out(copies, why, memory->address);
    } else {
        copy(copies, memory);
    }
}

void copies_take(struct copies *copies, const struct rerun_launch *launch)
{
    struct pinned memory;
    for (size_t i = 0; i + 8 <= launch->argument_bytes; i += 8) {
        uint64_t word = load_u64(launch->arguments + i);
        if (!is_taken(copies, word) && pinned_find(word, &memory))
            take(copies, &memory);
    }
}

int copies_answer(const struct copies *copies, uint64_t address, struct rerun_message *answer)
{
    for (size_t i = 0; i < copies->count; i++) {
        const struct bundle_buffer *piece = &copies->pieces[i];
        if (address != piece->address)
            continue;
        *answer = (struct rerun_message){.type = MESSAGE_FILE,
                                         .address = piece->address,
                                         .bytes = piece->size,
                                         .data = piece->address,
                                         .data_bytes = piece->size};
        return fcntl(copies->files[i], F_DUPFD_CLOEXEC, 0);
    }
    return -1;
}

/* Memory that is not there any more has not changed. */
static int has_changed(const struct bundle_buffer *piece, int file)
{
    uint8_t then[4096], now[sizeof then];
    for (uint64_t at = 0, size; at < piece->size; at += size) {
        size = piece->size - at < sizeof then ? piece->size - at : sizeof then;
        const struct iovec to = {now, size}, from = {(void *)(uintptr_t)(piece->address + at), size}; /* NOLINT */
        if (pread(file, then, size, (off_t)at) == (ssize_t)size &&
            process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size && memcmp(then, now, size) != 0)
            return 1;
    }
    return 0;
}

int copies_have_changed(const struct copies *copies)
{
    int found = 0;
    for (size_t i = 0; i < copies->count && !found; i++)
        found = has_changed(&copies->pieces[i], copies->files[i]);
    return found;
}

void copies_free(struct copies *copies)
{
    for (size_t i = 0; i < copies->count; i++)
        close(copies->files[i]);
    copies->count = 0;
}
