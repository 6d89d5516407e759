/*
 * Memory that another process can map. All memory of a device lies in one file, so an exported handle is that file, opened
 * again, with its position at the handle's memory (pages.h): descriptors are needed for exports only, and the memory outlives
 * the process that created it.
 *
 * Imported memory is not counted against the device: it is counted where it was created.
 */
#include "space_locked.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x65726168736d6973) /* "simshare" */

struct note {
    uint64_t magic, offset, size;
    CUmemAllocationProp properties;
};
_Static_assert(sizeof(struct note) == PAGES_NOTE_BYTES, "a note");

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

/* Neither looks at the current context (measured: both work after its sticky error). */
DRIVER(cuMemExportToShareableHandle, 10020,
       (void *, shareableHandle, CUmemGenericAllocationHandle, handle, CUmemAllocationHandleType, handleType,
        unsigned long long, flags))
{
    CALL_REFUSE(shareableHandle == NULL || flags != 0, INVALID_VALUE);
    CALL_TRY(check_type(handleType));
    HOLD(&space_lock);
    struct physical *physical = space_physical_locked(handle);
    if (physical == NULL || physical->references == 0 || physical->properties.requestedHandleTypes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct note note = {MAGIC, physical->offset, physical->size, physical->properties};
    int descriptor = pages_export(physical->descriptor, physical->offset, &note);
    CALL_REFUSE(descriptor < 0, OPERATING_SYSTEM);
    physical->is_exported = 1;
    memcpy(shareableHandle, &descriptor, sizeof descriptor); /* for any process; the caller closes it */
    return CUDA_SUCCESS;
}

/* The descriptor stays the caller's. */
DRIVER(cuMemImportFromShareableHandle, 10020,
       (CUmemGenericAllocationHandle *, handle, void *, osHandle, CUmemAllocationHandleType, shHandleType))
{
    uint64_t offset;
    struct note note;
    CALL_REFUSE(handle == NULL, INVALID_VALUE);
    CALL_TRY(check_type(shHandleType));
    int descriptor = (int)(intptr_t)osHandle;
    if (pages_import(descriptor, &offset, &note) != 0 || note.magic != MAGIC || note.offset != offset)
        return CUDA_ERROR_INVALID_VALUE;
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
    *handle = space_add_locked(&values)->handle;
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
    const struct physical *physical = mapping->physical;
    const struct note note = {MAGIC, physical->offset, physical->size, physical->properties};
    int descriptor = pages_export(physical->descriptor, physical->offset, &note);
    CALL_REFUSE(descriptor < 0, OPERATING_SYSTEM);
    memcpy(handle, &descriptor, sizeof descriptor);
    return CUDA_SUCCESS;
}
