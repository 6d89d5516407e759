#include "hosted.h"

#include "record.h"
#include "launch/pinned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* Keeps the first reason. */
static void leave_out(struct hosted *hosted, const char *why, uint64_t address)
{
    if (!hosted->left_out[0])
        snprintf(hosted->left_out, sizeof hosted->left_out, "an argument points to %s (0x%llx), which is not handed over", why,
                 (unsigned long long)address);
}

static int is_taken(const struct hosted *hosted, uint64_t address)
{
    for (size_t i = 0; i < hosted->count; i++)
        if (address - hosted->pieces[i].address < hosted->pieces[i].bytes)
            return 1;
    return 0;
}

/* write() copies, because it fails where nothing is mapped any more: another thread may have freed the memory. */
static void copy(struct hosted *hosted, const struct pinned *memory)
{
    int file = memfd_create("cufence-pinned", MFD_CLOEXEC);
    if (file < 0) {
        char why[100];
        snprintf(why, sizeof why, "pinned host memory, which cannot be copied: %s", strerror(errno));
        leave_out(hosted, why, memory->address);
        return;
    }
    if (!files_write(file, (const void *)(uintptr_t)memory->address, memory->bytes)) {
        leave_out(hosted, "pinned host memory that cannot be read", memory->address);
        close(file);
        return;
    }
    size_t at = hosted->count++;
    for (; at && hosted->pieces[at - 1].address > memory->address; at--) {
        hosted->pieces[at] = hosted->pieces[at - 1];
        hosted->files[at] = hosted->files[at - 1];
    }
    hosted->pieces[at] = (struct rerun_range){memory->address, memory->bytes};
    hosted->files[at] = file;
    hosted->total += memory->bytes;
}

static void take(struct hosted *hosted, const struct pinned *memory)
{
    char why[80];
    if (memory->kind == PINNED_MANAGED) {
        leave_out(hosted, "managed memory", memory->address);
    } else if (memory->kind == PINNED_DEVICE) {
        leave_out(hosted, "memory of another device", memory->address);
    } else if (memory->bytes > RERUN_PINNED_BYTES - hosted->total || hosted->count == RERUN_PINNED) {
        snprintf(why, sizeof why, "more than %llu MiB of pinned host memory, or %d blocks of it",
                 (unsigned long long)(RERUN_PINNED_BYTES / MIB), RERUN_PINNED);
        leave_out(hosted, why, memory->address);
    } else {
        copy(hosted, memory);
    }
}

void hosted_take(struct hosted *hosted, const struct rerun_launch *launch)
{
    struct pinned memory;
    for (size_t i = 0; i + 8 <= launch->argument_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, launch->arguments + i, sizeof word);
        if (!is_taken(hosted, word) && pinned_find(word, &memory))
            take(hosted, &memory);
    }
}

int hosted_answer(const struct hosted *hosted, uint64_t address, struct rerun_message *answer)
{
    for (size_t i = 0; i < hosted->count; i++) {
        const struct rerun_range *piece = &hosted->pieces[i];
        if (address != piece->address)
            continue;
        *answer = (struct rerun_message){.type = MESSAGE_FILE,
                                         .address = piece->address,
                                         .bytes = piece->bytes,
                                         .data = piece->address,
                                         .data_bytes = piece->bytes};
        return fcntl(hosted->files[i], F_DUPFD_CLOEXEC, 0);
    }
    return -1;
}

void hosted_free(struct hosted *hosted)
{
    for (size_t i = 0; i < hosted->count; i++)
        close(hosted->files[i]);
    hosted->count = 0;
}
