#include "virtual_memory.h"

#include <fcntl.h>
#include <search.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reservations without a wanted address begin here, in every process: far from where the host puts programs, libraries and
 * stacks, so that another process can reserve the same range. Where it isn't free, the host chooses. */
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__) /* ThreadSanitizer allows few ranges */
#define ARENA_START ((uint64_t)1 << 36)
#define ARENA_END ((uint64_t)7 << 36)
#else
#define ARENA_START ((uint64_t)1 << 45)
#define ARENA_END ((uint64_t)5 << 44)
#endif

/* Guards everything below. */
pthread_mutex_t space_lock = PTHREAD_MUTEX_INITIALIZER;
static int files[SIM_MAX_DEVICES + 1];
static uint64_t file_ends[SIM_MAX_DEVICES + 1];
static size_t used[SIM_MAX_DEVICES + 1];
static size_t reserved;
static uint64_t next_reservation = ARENA_START;
static void *reservations, *mappings;

/* ---- host pages behind the simulated memory: plain system calls, sizes and addresses in pages of the host ---- */

/*
 * Calls the system directly: ThreadSanitizer treats an mmap or munmap as a write to the whole range, and would report a data
 * race with a kernel that still uses the memory. Such a late access must fault instead, as on the device.
 */
static uint64_t map(uint64_t address, size_t size, int protection, int flags, int file, uint64_t offset)
{
    long result = syscall(SYS_mmap, address, size, protection, flags, file, offset);
    return result == -1 ? 0 : (uint64_t)result;
}

static int pages_open(const char *name)
{
    int file = memfd_create(name, MFD_CLOEXEC);
    return file >= 0 && ftruncate(file, PAGES_FILE_BYTES + PAGES_NOTES_BYTES) == 0 ? file : -1;
}

static void pages_unreserve(uint64_t address, size_t size)
{
    syscall(SYS_munmap, address, size);
}

uint64_t pages_reserve(size_t size, size_t alignment, uint64_t hint)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (hint != 0) {
        uint64_t at_hint = map(hint, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (at_hint == hint && hint % alignment == 0)
            return hint;
        if (at_hint != 0)
            pages_unreserve(at_hint, size);
    }
    size_t padded;
    if (__builtin_add_overflow(size, alignment, &padded))
        return 0;
    uint64_t start = map(0, padded, PROT_NONE, flags, -1, 0);
    if (start == 0)
        return 0;
    uint64_t aligned = (start + alignment - 1) / alignment * alignment;
    if (aligned != start)
        pages_unreserve(start, aligned - start);
    if (start + padded != aligned + size)
        pages_unreserve(aligned + size, start + padded - (aligned + size));
    return aligned;
}

static int pages_map(uint64_t address, size_t size, int file, uint64_t offset)
{
    return map(address, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset) == address ? 0 : -1;
}

static int pages_unmap(uint64_t address, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return map(address, size, PROT_NONE, flags, -1, 0) == address ? 0 : -1;
}

static int pages_protect(uint64_t address, size_t size, int protection)
{
    return (int)syscall(SYS_mprotect, address, size, protection);
}

static void pages_discard(int file, uint64_t offset, size_t size)
{
    /* The function of the C library is a cancellation point. */
    syscall(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

/* ---- the address space ---- */

static int compare_ranges(const void *a, const void *b)
{
    const struct range *left = a, *right = b;
    if (left->end <= right->start)
        return -1;
    return left->start >= right->end;
}

static void *find_range(void *tree, uint64_t start, uint64_t end)
{
    struct range key = {start, end};
    void **found = tfind(&key, &tree, compare_ranges);
    return found == NULL ? NULL : *found;
}

/* The one that holds the address, or NULL. */
static void *find_at(void *tree, uint64_t address)
{
    return address == UINT64_MAX ? NULL : find_range(tree, address, address + 1);
}

struct mapping *space_mapping_locked(uint64_t address)
{
    return find_at(mappings, address);
}

uint64_t space_new_id(void)
{
    static atomic_ullong next_id = 1;
    return atomic_fetch_add(&next_id, 1);
}

struct physical *space_physical_locked(CUmemGenericAllocationHandle handle)
{
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    return handle_is_valid(HANDLE_MEMORY, physical) && physical->references != 0 ? physical : NULL;
}

CUresult space_initialize(void)
{
    for (unsigned i = 0; i <= SIM_MAX_DEVICES; i++) {
        char name[32];
        snprintf(name, sizeof name, "cufence-sim-%u", i);
        files[i] = i < config_get()->devices || i == HOST_FILE ? pages_open(name) : -1;
        if (i < SIM_MAX_DEVICES)
            *pool_of_graphs((int)i) = (struct CUmemPoolHandle_st){.device = (int)i, .is_of_graphs = 1, .threshold = UINT64_MAX};
        CALL_REFUSE(files[i] < 0 && (i < config_get()->devices || i == HOST_FILE), OPERATING_SYSTEM);
    }
    return CUDA_SUCCESS;
}

static uint64_t choose_address_locked(size_t size, size_t alignment)
{
    uint64_t start = (next_reservation + alignment - 1) / alignment * alignment;
    if (start < next_reservation || start > ARENA_END || size > ARENA_END - start)
        return 0;
    next_reservation = start + size;
    return start;
}

struct block *space_block_locked(uint64_t address)
{
    const struct reservation *reservation = find_at(reservations, address);
    return reservation == NULL ? NULL : reservation->block;
}

CUresult space_reserve_locked(CUdeviceptr *address, size_t size, size_t alignment, uint64_t hint, struct block *block)
{
    int is_counted = block == NULL;
    CALL_REFUSE(is_counted && (size > config_get()->reserve || reserved > config_get()->reserve - size), OUT_OF_MEMORY);
    if (hint == 0 && is_counted)
        hint = choose_address_locked(size, alignment);
    uint64_t start = pages_reserve(size, alignment, hint);
    CALL_REFUSE(start == 0, OUT_OF_MEMORY);
    const struct reservation reservation = {{start, start + size}, block};
    tree_add(memory_copy(&reservation, sizeof reservation), &reservations, compare_ranges);
    if (is_counted)
        reserved += size;
    *address = start;
    return CUDA_SUCCESS;
}

CUresult space_unreserve_locked(uint64_t address, size_t size)
{
    struct reservation *reservation = find_at(reservations, address);
    if (reservation == NULL || reservation->range.start != address || reservation->range.end != address + size ||
        find_range(mappings, address, address + size) != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    tdelete(reservation, &reservations, compare_ranges);
    if (reservation->block == NULL)
        reserved -= size;
    pages_unreserve(address, size);
    free(reservation);
    return CUDA_SUCCESS;
}

/* Measured: this, cuMemMap and cuMemSetAccess work after the context's sticky error. A wish for an address is granted at
 * multiples of 32 MiB, and rounded up to one elsewhere; what is as large starts at one. */
DRIVER(cuMemAddressReserve, 10020,
       (CUdeviceptr *, address, size_t, size, size_t, alignment, CUdeviceptr, hint, unsigned long long, flags))
{
    const size_t unit = (size_t)32 << 20;
    if (alignment < (size < unit ? SIM_GRANULARITY : unit))
        alignment = size < unit ? SIM_GRANULARITY : unit;
    hint = (hint + unit - 1) & ~(CUdeviceptr)(unit - 1);
    CALL_REFUSE(address == NULL || flags != 0 || size == 0 || size % SIM_GRANULARITY != 0, INVALID_VALUE);
    CALL_REFUSE((alignment & (alignment - 1)) != 0, INVALID_VALUE);
    HOLD(&space_lock);
    return space_reserve_locked(address, size, alignment, hint, NULL);
}

DRIVER(cuMemAddressFree, 10020, (CUdeviceptr, address, size_t, size))
{
    CALL_TRY(context_check());
    HOLD(&space_lock);
    CALL_REFUSE(space_block_locked(address) != NULL, INVALID_VALUE);
    return space_unreserve_locked(address, size);
}

struct physical *space_add_locked(const struct physical *values)
{
    struct physical *physical = handle_create(HANDLE_MEMORY, sizeof *physical, NULL);
    *physical = *values;
    physical->references = 1;
    return physical;
}

int space_has_room_locked(int file, size_t size)
{
    size_t limit = file == HOST_FILE ? SIZE_MAX : config_get()->memory;
    return size <= limit && used[file] <= limit - size;
}

CUresult space_create_locked(struct physical **out, size_t size, int file, const CUmemAllocationProp *properties)
{
    CALL_REFUSE(!space_has_room_locked(file, size), OUT_OF_MEMORY);
    const struct physical values = {
        .offset = file_ends[file], .size = size, .file = file, .descriptor = files[file], .properties = *properties};
    *out = space_add_locked(&values);
    file_ends[file] += size;
    used[file] += size;
    return CUDA_SUCCESS;
}

/* Exported memory stays in the file: another process may still use it. */
void space_drop_locked(struct physical *physical)
{
    if (physical->references != 0 || physical->mappings != 0)
        return;
    handle_remove(HANDLE_MEMORY, physical);
    if (physical->shared != NULL) {
        share_close_locked(physical->shared);
    } else {
        used[physical->file] -= physical->size;
        if (!physical->is_exported)
            pages_discard(physical->descriptor, physical->offset, physical->size);
    }
    handle_free(HANDLE_MEMORY, physical);
}

DRIVER(cuMemCreate, 10020,
       (CUmemGenericAllocationHandle *, handle, size_t, size, const CUmemAllocationProp *, properties, unsigned long long,
        flags))
{
    CALL_TRY(context_check());
    CALL_REFUSE(handle == NULL || properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED, INVALID_VALUE);
    CALL_REFUSE(flags != 0 || size == 0 || size % SIM_GRANULARITY != 0, INVALID_VALUE);
    unsigned supported = config_get()->is_shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    CALL_REFUSE(((unsigned)properties->requestedHandleTypes & ~supported) != 0, NOT_SUPPORTED);
    int file = HOST_FILE;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        file = properties->location.id;
    else if (properties->location.type == CU_MEM_LOCATION_TYPE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_REFUSE(file != HOST_FILE && !config_has_device(file), INVALID_DEVICE);
    struct physical *physical;
    HOLD(&space_lock);
    space_make_room_locked(file, size, 0);
    CALL_TRY(space_create_locked(&physical, size, file, properties));
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

DRIVER(cuMemRelease, 10020, (CUmemGenericAllocationHandle, handle))
{
    CALL_TRY(context_check());
    HOLD(&space_lock);
    struct physical *physical = space_physical_locked(handle);
    CALL_REFUSE(physical == NULL, INVALID_VALUE);
    physical->references--;
    space_drop_locked(physical);
    return CUDA_SUCCESS;
}

DRIVER(cuMemRetainAllocationHandle, 11000, (CUmemGenericAllocationHandle *, handle, void *, address))
{
    HOLD(&space_lock);
    struct mapping *mapping = space_mapping_locked((uintptr_t)address);
    CALL_REFUSE(handle == NULL || mapping == NULL || mapping->block != NULL, INVALID_VALUE);
    mapping->physical->references++;
    *handle = (uintptr_t)mapping->physical;
    return CUDA_SUCCESS;
}

CUresult space_map_locked(struct mapping **out, uint64_t address, size_t size, struct physical *physical)
{
    const struct mapping mapping = {.range = {address, address + size}, .physical = physical, .id = space_new_id()};
    CALL_REFUSE(pages_map(address, size, physical->descriptor, physical->offset) != 0, OUT_OF_MEMORY);
    physical->mappings++;
    *out = tree_add(memory_copy(&mapping, sizeof mapping), &mappings, compare_ranges);
    return CUDA_SUCCESS;
}

/* Without access; only a whole handle can be mapped. */
DRIVER(cuMemMap, 10020,
       (CUdeviceptr, address, size_t, size, size_t, offset, CUmemGenericAllocationHandle, handle, unsigned long long, flags))
{
    if (flags != 0 || address % SIM_GRANULARITY != 0 || size == 0 || size % SIM_GRANULARITY != 0 || address + size < address)
        return CUDA_ERROR_INVALID_VALUE;
    HOLD(&space_lock);
    struct physical *physical = space_physical_locked(handle);
    struct reservation *reservation = find_at(reservations, address);
    struct mapping *mapping;
    if (physical == NULL || reservation == NULL || reservation->range.end < address + size || reservation->block != NULL ||
        find_range(mappings, address, address + size) != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_REFUSE(offset != 0 || size != physical->size, NOT_SUPPORTED);
    return space_map_locked(&mapping, address, size, physical);
}

/* Whether [start, end) consists of whole mappings. */
static int is_whole(uint64_t start, uint64_t end)
{
    while (start < end) {
        struct mapping *mapping = space_mapping_locked(start);
        if (mapping == NULL || mapping->range.start != start || mapping->range.end > end)
            return 0;
        start = mapping->range.end;
    }
    return 1;
}

void space_unmap_locked(struct mapping *mapping)
{
    tdelete(mapping, &mappings, compare_ranges);
    pages_unmap(mapping->range.start, mapping->range.end - mapping->range.start);
    mapping->physical->mappings--;
    space_drop_locked(mapping->physical);
    free(mapping);
}

DRIVER(cuMemUnmap, 10020, (CUdeviceptr, address, size_t, size))
{
    CALL_TRY(context_check());
    uint64_t end;
    CALL_REFUSE(size == 0 || __builtin_add_overflow(address, size, &end), INVALID_VALUE);
    HOLD(&space_lock);
    const struct mapping *first = space_mapping_locked(address);
    CALL_REFUSE(first == NULL || first->block != NULL || !is_whole(address, end), INVALID_VALUE);
    while (address < end) {
        struct mapping *mapping = space_mapping_locked(address);
        address = mapping->range.end;
        space_unmap_locked(mapping);
    }
    return CUDA_SUCCESS;
}

int space_protect_locked(struct mapping *mapping, int device, CUmemAccess_flags access)
{
    int widest = 0;
    mapping->access[device] = (unsigned char)access;
    for (unsigned i = 0; i < SIM_MAX_DEVICES; i++)
        widest |= mapping->access[i];
    return pages_protect(mapping->range.start, mapping->range.end - mapping->range.start, widest);
}

static CUresult set_access(CUdeviceptr address, size_t size, int device, CUmemAccess_flags access)
{
    uint64_t end;
    CALL_REFUSE(size == 0 || __builtin_add_overflow(address, size, &end), INVALID_VALUE);
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    CALL_REFUSE(access != CU_MEM_ACCESS_FLAGS_PROT_NONE && access != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                    access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                INVALID_VALUE);
    HOLD(&space_lock);
    const struct mapping *first = space_mapping_locked(address);
    CALL_REFUSE(!is_whole(address, end) || first->block != NULL, INVALID_VALUE);
    while (address < end) {
        struct mapping *mapping = space_mapping_locked(address);
        CALL_REFUSE(space_protect_locked(mapping, device, access) != 0, OUT_OF_MEMORY);
        address = mapping->range.end;
    }
    return CUDA_SUCCESS;
}

DRIVER(cuMemSetAccess, 10020, (CUdeviceptr, address, size_t, size, const CUmemAccessDesc *, desc, size_t, count))
{
    CALL_REFUSE(desc == NULL || count == 0, INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        CALL_REFUSE(desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE, NOT_SUPPORTED);
        CALL_TRY(set_access(address, size, desc[i].location.id, desc[i].flags));
    }
    return CUDA_SUCCESS;
}

DRIVER(cuMemGetAccess, 10020, (unsigned long long *, access, const CUmemLocation *, location, CUdeviceptr, address))
{
    CALL_REFUSE(access == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE, INVALID_VALUE);
    CALL_REFUSE(!config_has_device(location->id), INVALID_DEVICE);
    HOLD(&space_lock);
    const struct mapping *mapping = space_mapping_locked(address);
    CALL_REFUSE(mapping == NULL, INVALID_VALUE);
    *access = mapping->access[location->id];
    return CUDA_SUCCESS;
}

static struct space_range describe_block(const struct block *block)
{
    unsigned open_to = 0;
    for (unsigned i = 0; block->pool != NULL && i < SIM_MAX_DEVICES; i++)
        open_to |= block->pool->access[i] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? 1u << i : 0;
    return (struct space_range){.start = block->start,
                                .size = block->requested,
                                .device = block->device,
                                .context = block->context,
                                .pool = block->pool,
                                .open_to = open_to,
                                .mapping_start = block->start,
                                .mapping_size = block->bytes,
                                .id = block->id};
}

CUresult space_find(CUdeviceptr address, struct space_range *range)
{
    HOLD(&space_lock);
    const struct block *block = space_block_locked(address);
    const struct mapping *mapping = space_mapping_locked(address);
    if (block != NULL) {
        CALL_REFUSE(!(block->is_live || block->references != 0) || address >= block->start + block->bytes, NOT_FOUND);
        *range = describe_block(block);
        return CUDA_SUCCESS;
    }
    CALL_REFUSE(mapping == NULL, NOT_FOUND);
    *range = (struct space_range){.start = mapping->range.start,
                                  .size = mapping->range.end - mapping->range.start,
                                  .device = mapping->physical->file == HOST_FILE ? 0 : mapping->physical->file,
                                  .mapping_start = mapping->range.start,
                                  .mapping_size = mapping->range.end - mapping->range.start,
                                  .id = mapping->id};
    return CUDA_SUCCESS;
}

int space_is_device(CUdeviceptr address)
{
    HOLD(&space_lock);
    return find_at(reservations, address) != NULL;
}

int space_is_accessible(CUdeviceptr address, size_t size, int is_write, int device)
{
    uint64_t end;
    if (__builtin_add_overflow(address, size, &end))
        return 0;
    HOLD(&space_lock);
    const struct block *block = space_block_locked(address);
    if (block != NULL) /* it ends at its requested size, although its last page goes further */
        return (block->is_live || block->references != 0) && end <= block->start + block->requested;
    while (address < end) {
        const struct mapping *mapping = space_mapping_locked(address);
        if (mapping == NULL || mapping->block != NULL ||
            mapping->access[device] < (is_write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ))
            return 0;
        address = mapping->range.end;
    }
    return 1;
}

size_t space_free_bytes_locked(int device)
{
    return config_get()->memory - used[device];
}

DRIVER(cuMemGetInfo, 3020, (size_t *, free_bytes, size_t *, total))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(free_bytes == NULL || total == NULL, INVALID_VALUE);
    HOLD(&space_lock);
    *total = config_get()->memory;
    *free_bytes = space_free_bytes_locked(context->device);
    return CUDA_SUCCESS;
}
