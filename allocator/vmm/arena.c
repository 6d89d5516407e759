#include "arena.h"

#include "base/error.h"
#include "base/lock.h"
#include "physical.h"

#include <stdlib.h>

#define LEAD (64ull << 20)    /* guard in front of the first slot */
#define FAR_LEAD (1ull << 40) /* the same in an arena that is much larger */
#define SMALLEST_ARENA (64ull << 20)
#define ARENA_UNIT (32ull << 20) /* drivers reserve in such units (H100, driver 580.159) */
#define SMALLEST_GUARD (2ull << 20)
#define GUARD_SHARE 128          /* a guard takes at most so much of the free address space */
#define WRAPS_FROM (2ull << 30)  /* bytes of a mapping in which a 32-bit index, or offset, can wrap */
#define WRAP_REACH (16ull << 30) /* how far off it then leads: 2^31 elements of 8 bytes */

/*
 * The ring holds the slots in address order, starting at the cursor and going once around the arena. The tail is the slot cut
 * last, right below the cursor. The head is the slot that the cursor reaches next, after wrapping. So both ends move in
 * constant time, and a binary search finds the slot of an address.
 */
static struct {
    struct lock lock;    /* guards all of this; never held across driver calls */
    uint64_t start, end; /* atomic: the end is set last */
    uint64_t first;      /* where the first slot may begin */
    uint64_t cursor;     /* next address to hand out */
    uint64_t history;
    void (*forget)(struct slot *slot);
    struct slot **ring;
    size_t capacity; /* power of two */
    size_t head, count;
    size_t past;    /* slots in the ring that have no mapping any more */
    uint64_t taken; /* by the others, with their guards */
    uint64_t used;
} arena = {.lock = LOCK(RANK_ARENA)};

#define DEVICES 64
static uint64_t peers_of[DEVICES]; /* atomic; by device: one bit for each device that has access to its memory */

static struct slot *nth(size_t i)
{
    return arena.ring[(arena.head + i) & (arena.capacity - 1)];
}

/* Drivers give out addresses from low ones on. Slots that begin far above these have addresses that are free in other
 * processes, too, where a launch is played again under a tool that has memory of its own. */
static uint64_t lead_of(uint64_t bytes)
{
    if (bytes / FAR_LEAD >= 16)
        return FAR_LEAD;
    return bytes / GUARD_SHARE < LEAD ? SMALLEST_GUARD : LEAD;
}

cufence_status arena_open(uint64_t bytes, uint64_t history, void (*forget)(struct slot *slot))
{
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (; bytes >= SMALLEST_ARENA; bytes /= 2) {
        bytes = bytes / ARENA_UNIT * ARENA_UNIT;
        result = driver->cuMemAddressReserve(&address, bytes, 0, 0, 0);
        if (result == CUDA_SUCCESS)
            break;
    }
    if (result != CUDA_SUCCESS) {
        driver_check(result, "cuMemAddressReserve");
        return error_set(
            CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE,
            "the driver cannot reserve even 64 MiB of address space; check `ulimit -v`, and what else the process has "
            "reserved");
    }
    HOLD(&arena.lock);
    __atomic_store_n(&arena.start, address, __ATOMIC_RELAXED);
    arena.cursor = arena.first = address + lead_of(bytes);
    arena.history = history;
    arena.forget = forget;
    __atomic_store_n(&arena.end, address + bytes, __ATOMIC_RELEASE);
    return CUFENCE_OK;
}

void arena_close(void)
{
    lock_take(&arena.lock);
    uint64_t start = arena.start, bytes = arena.end - arena.start;
    arena.start = arena.end = arena.first = arena.cursor = 0;
    lock_release(&arena.lock);
    driver->cuMemAddressFree(start, bytes);
}

uint64_t arena_start(void)
{
    return __atomic_load_n(&arena.start, __ATOMIC_RELAXED);
}

uint64_t arena_end(void)
{
    return __atomic_load_n(&arena.end, __ATOMIC_ACQUIRE);
}

int arena_contains(uint64_t address)
{
    return address < arena_end() && address >= arena_start();
}

uint64_t arena_used(void)
{
    HOLD(&arena.lock);
    return arena.used;
}

int arena_is_roomy(uint64_t span)
{
    HOLD(&arena.lock);
    return arena.count - arena.past < (arena.end - arena.start) / 4 / span;
}

static uint64_t free_bytes(void)
{
    lock_expect(RANK_ARENA);
    return arena.end - arena.first - arena.taken;
}

int arena_is_scarce(void)
{
    HOLD(&arena.lock);
    return free_bytes() < (arena.end - arena.first) / 4;
}

static int grow(void)
{
    size_t capacity = arena.capacity ? arena.capacity * 2 : 1024;
    struct slot **ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return -1;
    for (size_t i = 0; i < arena.count; i++)
        ring[i] = nth(i);
    free(arena.ring);
    arena.ring = ring;
    arena.capacity = capacity;
    arena.head = 0;
    return 0;
}

static void append(struct slot *slot)
{
    arena.ring[(arena.head + arena.count++) & (arena.capacity - 1)] = slot;
}

static void drop(struct slot *slot)
{
    arena.past--;
    arena.forget(slot);
}

/* Forgets past slots, oldest first, until half the history is left. One pass; the order is kept. */
static void forget_oldest(void)
{
    size_t excess = arena.past - (size_t)(arena.history / 2), count = arena.count, kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = nth(i);
        if (!slot->is_mapped && slot->handle == 0 && excess > 0) {
            excess--;
            drop(slot);
        } else {
            arena.ring[(arena.head + kept++) & (arena.capacity - 1)] = slot;
        }
    }
    arena.count = kept;
}

/* Makes room for `span` at the cursor: skips mapped slots, drops past ones. Returns 0, or -1 after a whole round. */
static int advance(uint64_t span)
{
    int wraps = 0;
    for (;;) {
        struct slot *head = arena.count ? nth(0) : NULL;
        uint64_t limit = head && head->base >= arena.cursor ? head->base - head->lead : arena.end;
        /* The guard in front of a mapping stays, so a new slot, its own guard included, must end at or below `limit`. */
        if (limit - arena.cursor >= span)
            return 0;
        if (limit == arena.end) {
            if (wraps++)
                return -1;
            arena.cursor = arena.first;
            arena.used = 0;
            continue;
        }
        arena.head = (arena.head + 1) & (arena.capacity - 1);
        arena.count--;
        if (head->is_mapped || head->handle) {
            arena.cursor = head->base + head->span;
            append(head);
        } else {
            drop(head);
        }
    }
}

/* Small guards leave room for many slots before what is free is used up. */
static uint64_t affordable(uint64_t guard)
{
    uint64_t most = free_bytes() / GUARD_SHARE / SMALLEST_GUARD * SMALLEST_GUARD;
    if (most < SMALLEST_GUARD)
        most = SMALLEST_GUARD;
    return guard < most ? guard : most;
}

static int find_room(struct slot *slot, uint64_t guard)
{
    lock_expect(RANK_ARENA);
    uint64_t reach = slot->mapped >= WRAPS_FROM ? affordable(WRAP_REACH) : 0;
    slot->lead = reach;
    slot->span = slot->mapped + affordable(guard > reach ? guard : reach);
    if (advance(slot->lead + slot->span) == 0)
        return 1;
    slot->lead = 0;
    slot->span = slot->mapped + SMALLEST_GUARD;
    return (reach || guard > SMALLEST_GUARD) && advance(slot->span) == 0;
}

cufence_status slot_cut(struct slot *slot, int device, uint64_t mapped, uint64_t guard)
{
    *slot = (struct slot){.mapped = mapped, .device = device};
    HOLD(&arena.lock);
    if (arena.past > arena.history)
        forget_oldest();
    if (arena.count == arena.capacity && grow() != 0)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of %zu mappings", arena.count);
    if (!find_room(slot, guard))
        return error_set(CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE,
                         "no %llu bytes of address space left between %zu mappings and their guards in an arena of %llu "
                         "bytes; a larger `ulimit -v` makes room",
                         (unsigned long long)slot->span, arena.count, (unsigned long long)(arena.end - arena.start));
    slot->base = arena.cursor + slot->lead;
    arena.cursor = slot->base + slot->span;
    arena.used += slot->lead + slot->span;
    arena.taken += slot->lead + slot->span;
    slot->handle = 0;
    slot->is_mapped = 1; /* marked as in use now, so that a wrap does not drop it before it is mapped */
    append(slot);
    return CUFENCE_OK;
}

static void set_mapped(struct slot *slot, int is_mapped, CUmemGenericAllocationHandle handle)
{
    HOLD(&arena.lock);
    slot->handle = handle;
    slot->is_mapped = is_mapped;
    if (!is_mapped) {
        arena.past++;
        arena.taken -= slot->lead + slot->span;
    }
}

static CUresult give_access(uint64_t base, uint64_t mapped, int device, uint64_t peers)
{
    CUmemAccessDesc access[1 + DEVICES];
    size_t count = 0;
    for (int other = -1; other < DEVICES; other++) {
        if (other < 0 || (peers >> other & 1 && other != device)) {
            access[count] = (CUmemAccessDesc){.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            access[count++].location.id = other < 0 ? device : other;
        }
    }
    return driver->cuMemSetAccess(base, mapped, access, count);
}

static uint64_t peers_now(int device)
{
    return (unsigned)device < DEVICES ? __atomic_load_n(&peers_of[device], __ATOMIC_SEQ_CST) : 0;
}

int arena_is_shared(int device, int peer)
{
    return (unsigned)peer < DEVICES && peers_now(device) >> peer & 1;
}

void arena_share(int device, int peer)
{
    struct range {
        uint64_t base, mapped;
    } *slots = NULL; /* copies, since the lock is not held across driver calls */
    size_t count = 0;
    if ((unsigned)device >= DEVICES || (unsigned)peer >= DEVICES || device == peer ||
        __atomic_fetch_or(&peers_of[device], UINT64_C(1) << peer, __ATOMIC_SEQ_CST) >> peer & 1)
        return;
    lock_take(&arena.lock);
    if (arena.count)
        slots = malloc(arena.count * sizeof *slots);
    for (size_t i = 0; slots && i < arena.count; i++) {
        if (nth(i)->device == device && nth(i)->handle)
            slots[count++] = (struct range){nth(i)->base, nth(i)->mapped};
    }
    lock_release(&arena.lock);
    /* Fails harmlessly for a slot that was unmapped meanwhile: its address is not reused that soon. */
    for (size_t i = 0; i < count; i++)
        give_access(slots[i].base, slots[i].mapped, device, peers_now(device));
    free(slots);
}

static cufence_status map(struct slot *slot, CUmemGenericAllocationHandle handle)
{
    cufence_status status = driver_check(driver->cuMemMap(slot->base, slot->mapped, 0, handle, 0), "cuMemMap");
    if (status != CUFENCE_OK)
        return status;
    uint64_t peers = peers_now(slot->device);
    status = driver_check(give_access(slot->base, slot->mapped, slot->device, peers), "cuMemSetAccess");
    if (status != CUFENCE_OK) {
        driver->cuMemUnmap(slot->base, slot->mapped);
        return status;
    }
    set_mapped(slot, 1, handle);
    if (peers_now(slot->device) != peers) /* a peer was added meanwhile, by a thread that may not have seen the slot */
        give_access(slot->base, slot->mapped, slot->device, peers_now(slot->device));
    return CUFENCE_OK;
}

cufence_status slot_map(struct slot *slot)
{
    CUmemGenericAllocationHandle handle;
    cufence_status status = physical_take(slot->device, slot->mapped, &handle);
    if (status != CUFENCE_OK)
        return status;
    status = map(slot, handle);
    if (status != CUFENCE_OK)
        physical_give(slot->device, slot->mapped, handle);
    return status;
}

cufence_status slot_map_second(struct slot *slot, const struct slot *of)
{
    slot->is_second = 1;
    return map(slot, of->handle);
}

void slot_hand_over(struct slot *from, struct slot *to)
{
    from->is_second = 1;
    to->is_second = 0;
}

void slot_abandon(struct slot *slot)
{
    set_mapped(slot, 0, 0);
}

void slot_unmap(struct slot *slot)
{
    const struct slot gone = *slot; /* a copy: once the slot is past, another thread may drop and free it */
    driver->cuMemUnmap(gone.base, gone.mapped);
    set_mapped(slot, 0, 0);
    if (gone.is_second)
        __atomic_add_fetch(&physical_returns, 1, __ATOMIC_RELAXED);
    else
        physical_give(gone.device, gone.mapped, gone.handle);
}

/* Returns how many slots begin at or below `address` in ring order, which starts at the cursor and goes around the arena. */
static size_t rank(uint64_t address)
{
    uint64_t size = arena.end - arena.start, key = (address - arena.cursor + size) % size;
    size_t low = 0, high = arena.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((nth(middle)->base - arena.cursor + size) % size <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the slot whose mapping contains the address, NULL if there is none. */
static struct slot *find_locked(uint64_t address)
{
    lock_expect(RANK_ARENA);
    size_t at = address >= arena.start && address < arena.end ? rank(address) : 0;
    struct slot *slot = at ? nth(at - 1) : NULL;
    return slot && address >= slot->base && address - slot->base < slot->mapped ? slot : NULL;
}

uint64_t arena_base_of(uint64_t address)
{
    HOLD(&arena.lock);
    const struct slot *slot = find_locked(address);
    return slot ? slot->base : 0;
}

struct slot *arena_slot_at(uint64_t address)
{
    HOLD(&arena.lock);
    struct slot *slot = arena.count ? find_locked(address) : NULL;
    if (slot && !slot->handle) /* cut and not mapped yet, or past */
        slot = NULL;
    return slot;
}

/* Finds the mapping at the address and fills in what the arena knows of it. */
static int describe(uint64_t address, struct slot_export *out)
{
    HOLD(&arena.lock);
    const struct slot *slot = find_locked(address);
    int is_mapped = slot && slot->handle; /* a slot without a handle is cut, or past */
    if (is_mapped)
        *out = (struct slot_export){.base = slot->base, .mapped = slot->mapped, .device = slot->device, .fd = -1};
    return is_mapped;
}

cufence_status arena_export(uint64_t address, struct slot_export *out)
{
    struct slot_export found;
    CUmemGenericAllocationHandle handle;
    if (!describe(address, &found))
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "no memory of cufence is mapped at 0x%llx",
                         (unsigned long long)address);
    if (!physical_is_shareable(found.device))
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver cannot export the memory of device %d as a file descriptor",
                         found.device);
    /* A handle of our own, because another thread may unmap the slot now and give up the slot's. */
    cufence_status status = driver_check(driver->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)found.base),
                                         "cuMemRetainAllocationHandle");
    if (status != CUFENCE_OK)
        return status;
    status = driver_check(driver->cuMemExportToShareableHandle(&found.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                          "cuMemExportToShareableHandle");
    driver->cuMemRelease(handle);
    if (status == CUFENCE_OK)
        *out = found;
    return status;
}

void arena_visit(uint64_t address, size_t reach, void (*visit)(struct slot *slot, uint64_t gap_start, void *user), void *user)
{
    HOLD(&arena.lock);
    if (address >= arena.start && address < arena.end && arena.count) {
        /* The ring starts at the cursor. Consecutive slots are neighbours unless the ends of the arena are between them. */
        size_t count = arena.count, middle = rank(address), total = 2 * reach < count ? 2 * reach : count;
        size_t first = (middle + count - (reach < count ? reach : count)) % count;
        for (size_t k = 0; k < total; k++) {
            struct slot *slot = nth((first + k) % count), *before = nth((first + k + count - 1) % count);
            int follows = before != slot && before->base < slot->base;
            uint64_t room = slot->base - arena.start, lead = LEAD + slot->lead; /* the lowest slot's guard is a part of it */
            visit(slot, follows ? before->base + before->mapped : slot->base - (room < lead ? room : lead), user);
        }
    }
}

size_t arena_some(size_t from, size_t count, int (*visit)(struct slot *slot, void *user), void *user)
{
    HOLD(&arena.lock);
    size_t end = from < arena.count && count < arena.count - from ? from + count : arena.count;
    for (size_t i = from; i < end; i++) {
        if (visit(nth(i), user))
            break;
    }
    return end < arena.count ? end : 0;
}
