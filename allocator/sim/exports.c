/*
 * Memory that another process can map. All memory of a device lies in one file, so an exported handle is that file, opened
 * again, with its position at the handle's memory, of which a note stands behind the memory in the file: nothing is copied,
 * descriptors are needed for exports only, and the memory outlives the process that created it.
 *
 * Imported memory is not counted against the device: it is counted where it was created.
 */
#include "virtual_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x65726168736d6973) /* "simshare" */

#define NOTE_STRIDE 64

struct note {
    uint64_t magic, offset, size;
    CUmemAllocationProp properties;
};
_Static_assert(sizeof(struct note) <= NOTE_STRIDE && PAGES_NOTES_BYTES / NOTE_STRIDE == PAGES_FILE_BYTES >> 21, "room for all");

/* A file that memory was imported from. */
struct shared_file {
    struct shared_file *next;
    dev_t device;
    ino_t inode;
    int descriptor;
    unsigned handles;
};

static struct shared_file *shared_files; /* under space_lock */

/* Returns the file with one use more; NULL if it can't be kept open. */
static struct shared_file *open_locked(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return NULL;
    struct shared_file *file = shared_files;
    while (file != NULL && (file->device != status.st_dev || file->inode != status.st_ino))
        file = file->next;
    if (file == NULL) {
        int kept = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
        if (kept < 0)
            return NULL;
        file = memory_new(sizeof *file);
        *file = (struct shared_file){shared_files, status.st_dev, status.st_ino, kept, 0};
        shared_files = file;
    }
    file->handles++;
    return file;
}

void share_close_locked(struct shared_file *file)
{
    if (--file->handles != 0)
        return;
    LL_DELETE(shared_files, file);
    close(file->descriptor);
    free(file);
}

static CUresult check_type(CUmemAllocationHandleType type)
{
    CALL_REFUSE(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, INVALID_VALUE);
    return config_get()->is_shareable ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static off_t note_at(uint64_t offset)
{
    return PAGES_FILE_BYTES + (off_t)(offset >> 21) * NOTE_STRIDE;
}

/* Writes a descriptor for another process to *out, which the caller closes. */
static CUresult export(const struct physical *physical, void *out)
{
    const struct note note = {MAGIC, physical->offset, physical->size, physical->properties};
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", physical->descriptor);
    CALL_REFUSE(pwrite(physical->descriptor, &note, sizeof note, note_at(note.offset)) != sizeof note, OPERATING_SYSTEM);
    int opened = open(path, O_RDWR | O_CLOEXEC); /* with a position of its own, unlike dup() */
    CALL_REFUSE(opened < 0, OPERATING_SYSTEM);
    lseek(opened, (off_t)note.offset, SEEK_SET);
    memcpy(out, &opened, sizeof opened);
    return CUDA_SUCCESS;
}

/* Returns whether the descriptor is from export(), in any process. */
static int read_note(int descriptor, struct note *note)
{
    struct stat status;
    off_t position = lseek(descriptor, 0, SEEK_CUR);
    if (position < 0 || position >= PAGES_FILE_BYTES || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size != PAGES_FILE_BYTES + PAGES_NOTES_BYTES)
        return 0;
    return pread(descriptor, note, sizeof *note, note_at((uint64_t)position)) == sizeof *note && note->magic == MAGIC &&
           note->offset == (uint64_t)position;
}

/* Neither looks at the current context (measured: both work after its sticky error). */
DRIVER(cuMemExportToShareableHandle, 10020,
       (void *, shareableHandle, CUmemGenericAllocationHandle, handle, CUmemAllocationHandleType, handleType,
        unsigned long long, flags))
{
    CALL_REFUSE(shareableHandle == NULL || flags != 0, INVALID_VALUE);
    CALL_TRY(check_type(handleType));
    HOLD(&space_lock);
    struct physical *physical = space_physical_locked(handle);
    CALL_REFUSE(physical == NULL || physical->properties.requestedHandleTypes == 0, INVALID_VALUE);
    physical->is_exported = 1;
    return export(physical, shareableHandle);
}

/* The descriptor stays the caller's. */
DRIVER(cuMemImportFromShareableHandle, 10020,
       (CUmemGenericAllocationHandle *, handle, void *, osHandle, CUmemAllocationHandleType, shHandleType))
{
    struct note note;
    CALL_REFUSE(handle == NULL, INVALID_VALUE);
    CALL_TRY(check_type(shHandleType));
    int descriptor = (int)(intptr_t)osHandle;
    CALL_REFUSE(!read_note(descriptor, &note), INVALID_VALUE);
    int is_device = note.properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    CALL_REFUSE(is_device && !config_has_device(note.properties.location.id), INVALID_DEVICE);
    HOLD(&space_lock);
    struct shared_file *file = open_locked(descriptor);
    CALL_REFUSE(file == NULL, OPERATING_SYSTEM);
    const struct physical values = {.offset = note.offset,
                                    .size = note.size,
                                    .file = is_device ? note.properties.location.id : HOST_FILE,
                                    .descriptor = file->descriptor,
                                    .shared = file,
                                    .properties = note.properties};
    *handle = (uintptr_t)space_add_locked(&values);
    return CUDA_SUCCESS;
}

/* The descriptor is that of the memory's file, at the memory's place; nothing here can map it. */
DRIVER(cuMemGetHandleForAddressRange, 11070,
       (void *, handle, CUdeviceptr, dptr, size_t, size, CUmemRangeHandleType, handleType, unsigned long long, flags))
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CALL_REFUSE(handle == NULL || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0, INVALID_VALUE);
    CALL_REFUSE(!config_get()->is_shareable, NOT_SUPPORTED);
    CALL_REFUSE(size == 0 || dptr % page != 0 || size % page != 0, INVALID_VALUE);
    HOLD(&space_lock);
    const struct mapping *mapping = space_mapping_locked(dptr);
    CALL_REFUSE(mapping == NULL || size > mapping->range.end - dptr, INVALID_VALUE);
    return export(mapping->physical, handle);
}
