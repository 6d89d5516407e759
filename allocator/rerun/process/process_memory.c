#include "process_memory.h"

#include "base/error.h"
#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE PATTERN_PAGE
#define MOST_PIECES 4096               /* mappings */
#define MOST_PATTERNS 32               /* mappings with a pattern at either end */
#define FAR (31 * PAGE)                /* bytes beyond these pages that are filled; with them, the default guard */
#define SCAN_EACH ((uint64_t)4 << 20)  /* bytes of a mapping that are searched for addresses ... */
#define SCAN_ALL ((uint64_t)256 << 20) /* ... and of all mappings together */
#define MOST_REFUSED 1024

struct piece {
    uint64_t base, bytes;
    CUdeviceptr seen;            /* where the original is mapped */
    struct kept kept;            /* instead of an original */
    uint64_t own_start, own_end; /* of its buffer, if the rest is known to be slack; else equal */
    int is_searched;
    int has_pattern;         /* is one of the first MOST_PATTERNS: arguments point to them */
    uint64_t before, behind; /* pages with a pattern; 0: not mapped */
};

static struct {
    int socket, device, is_saved;
    uint64_t start, end;
    struct piece pieces[MOST_PIECES]; /* by address */
    size_t count;
    uint64_t refused[MOST_REFUSED]; /* addresses with nothing mapped, in pages */
    size_t refused_count;
    uint64_t searched; /* bytes */
    int has_noted_host, has_noted_pattern, has_noted_far;
    const struct rerun_input *moved; /* has a buffer that is moved; NULL: there is none */
    uint8_t *found;                  /* a page */
} memory;

static void note(const char *text, int *is_noted)
{
    struct rerun_message message = {.type = MESSAGE_NOTE};
    if (*is_noted)
        return;
    *is_noted = 1;
    strncpy(message.text, text, sizeof message.text - 1);
    rerun_send(memory.socket, &message, -1);
}

static cufence_status reserve(uint64_t start, uint64_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = driver->cuMemAddressReserve(&address, bytes, 0, start, 0);
    if (result != CUDA_SUCCESS)
        return driver_check(result, "cuMemAddressReserve");
    return address == start
               ? CUFENCE_OK
               : error_set(CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE,
                           "the buffers' addresses are taken in the new process (0x%llx and the %llu MiB from there on)",
                           (unsigned long long)start, (unsigned long long)(bytes >> 20));
}

cufence_status memory_open(int socket, int device, const struct rerun_input *input)
{
    memory.socket = socket;
    memory.device = device;
    memory.is_saved = input->is_saved != 0;
    memory.start = input->bundle.arena_start;
    memory.end = input->bundle.arena_end;
    memory.found = malloc(PAGE);
    if (!memory.found)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    cufence_status status = patterns_open(socket);
    return status == CUFENCE_OK ? reserve(memory.start, memory.end - memory.start) : status;
}

/* ---- mappings ---- */

/* Returns the index of the first piece behind the address. */
static size_t position_of(uint64_t address)
{
    size_t low = 0, high = memory.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory.pieces[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether all these bytes are in one mapping. */
static int has(uint64_t address, uint64_t bytes)
{
    size_t behind = position_of(address);
    const struct piece *piece = behind ? &memory.pieces[behind - 1] : NULL;
    return piece && address - piece->base < piece->bytes && bytes <= piece->bytes - (address - piece->base);
}

static int is_refused(uint64_t address)
{
    for (size_t i = 0; i < memory.refused_count; i++)
        if (memory.refused[i] == address / PAGE)
            return 1;
    return 0;
}

static cufence_status map(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory.device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    cufence_status status = driver_check(driver->cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
    if (status != CUFENCE_OK)
        return status;
    status = driver_check(driver->cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
    if (status != CUFENCE_OK)
        driver->cuMemUnmap(address, bytes);
    return status;
}

static CUresult create(CUmemGenericAllocationHandle *handle, uint64_t bytes, CUmemLocationType where, int id)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = where, .id = id}};
    return driver->cuMemCreate(handle, bytes, &prop, 0);
}

static cufence_status show_original(struct piece *piece, CUmemGenericAllocationHandle original)
{
    CUresult result = driver->cuMemAddressReserve(&piece->seen, piece->bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return driver_check(result, "cuMemAddressReserve");
    cufence_status status = map(piece->seen, piece->bytes, original);
    if (status != CUFENCE_OK) {
        driver->cuMemAddressFree(piece->seen, piece->bytes);
        piece->seen = 0;
    }
    return status;
}

static cufence_status refresh(const struct piece *piece)
{
    if (piece->kept.is_kept)
        return keep_read(&piece->kept, piece->base, piece->bytes);
    return driver_check(driver->cuMemcpyDtoD(piece->base, piece->seen, piece->bytes), "cuMemcpyDtoD");
}

/* Maps new memory: the device's, or else the host's. */
static cufence_status add(uint64_t address, uint64_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUresult result = create(&handle, bytes, CU_MEM_LOCATION_TYPE_DEVICE, memory.device);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        result = create(&handle, bytes, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
        if (result == CUDA_SUCCESS)
            note("the GPU was full, so some memory was in host memory", &memory.has_noted_host);
    }
    if (result != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "neither the GPU nor the host has room for a copy of %llu MiB",
                         (unsigned long long)(bytes >> 20));
    return map(address, bytes, handle);
}

static cufence_status take_original(struct piece *piece, const struct rerun_message *message, int fd)
{
    CUmemGenericAllocationHandle original;
    if (message->type != MESSAGE_GIVE)
        return keep_open(fd, message, &piece->kept);
    CUresult result =
        driver->cuMemImportFromShareableHandle(&original, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return result == CUDA_SUCCESS ? show_original(piece, original) : driver_check(result, "cuMemImportFromShareableHandle");
}

/* What of the mapping is the buffer's, if the message says so. */
static void take_bounds(struct piece *piece, const struct rerun_message *message)
{
    uint64_t before = message->data - piece->base;
    if (!message->is_bounded || message->data < piece->base || before > piece->bytes ||
        message->data_bytes > piece->bytes - before)
        return;
    piece->own_start = message->data;
    piece->own_end = message->data + message->data_bytes;
}

/* Maps a copy. Never the original: the program may go on with it, in another context or on another device. */
static cufence_status import(const struct rerun_message *message, int fd)
{
    uint64_t base = message->address, bytes = message->bytes;
    struct piece piece = {.base = base, .bytes = bytes, .has_pattern = memory.count < MOST_PATTERNS};
    if (memory.count == MOST_PIECES)
        return error_set(CUFENCE_ERROR_OVERFLOW, "the kernel reaches more than %d buffers", MOST_PIECES);
    if (base < memory.start || bytes == 0 || base > memory.end || bytes > memory.end - base || has(base, 1))
        return error_set(CUFENCE_ERROR_CORRUPT, "memory outside of cufence's address space was offered");
    take_bounds(&piece, message);
    cufence_status status = take_original(&piece, message, fd) ?: add(base, bytes) ?: refresh(&piece);
    if (status != CUFENCE_OK)
        return status;
    size_t at = position_of(base);
    memmove(&memory.pieces[at + 1], &memory.pieces[at], (memory.count - at) * sizeof piece);
    memory.pieces[at] = piece;
    memory.count++;
    return memory.is_saved ? keep_hand_over(memory.socket, MESSAGE_SAVE, base, bytes, 0) : CUFENCE_OK;
}

/* Asks for the memory at an address, unless it is there. */
static cufence_status need(uint64_t address)
{
    struct rerun_message message = {.type = MESSAGE_NEED, .address = address};
    int fd;
    if (has(address, 1) || is_refused(address))
        return CUFENCE_OK;
    cufence_status status = rerun_ask(memory.socket, &message, &fd);
    if (status == CUFENCE_OK && message.type != MESSAGE_NONE)
        status = import(&message, fd);
    else if (status == CUFENCE_OK && memory.refused_count < MOST_REFUSED)
        memory.refused[memory.refused_count++] = address / PAGE;
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- what a kernel reaches ---- */

static cufence_status search(const uint8_t *bytes, size_t size)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i + 8 <= size && status == CUFENCE_OK; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        if (word >= memory.start && word < memory.end)
            status = need(word);
    }
    return status;
}

static cufence_status search_piece(struct piece *piece)
{
    uint64_t base = piece->base, left = piece->bytes < SCAN_EACH ? piece->bytes : SCAN_EACH;
    cufence_status status = CUFENCE_OK;
    piece->is_searched = 1; /* the piece may move while it is searched */
    /* A buffer ends where its mapping does, so a small one lies in the last bytes. */
    for (uint64_t at = base + piece->bytes - left; left && status == CUFENCE_OK && memory.searched < SCAN_ALL;) {
        uint64_t bytes = left < PAGE ? left : PAGE;
        status = driver_check(driver->cuMemcpyDtoH(memory.found, at, bytes), "cuMemcpyDtoH") ?: search(memory.found, bytes);
        memory.searched += bytes;
        at += bytes;
        left -= bytes;
    }
    return status;
}

cufence_status memory_reach(const uint8_t *arguments, size_t size)
{
    cufence_status status = search(arguments, size);
    for (size_t i = 0; i < memory.count && status == CUFENCE_OK;) {
        if (memory.pieces[i].is_searched) {
            i++;
            continue;
        }
        status = search_piece(&memory.pieces[i]);
        i = 0; /* new pieces may lie in front of it */
    }
    return status;
}

int memory_is_full(void)
{
    return memory.has_noted_host;
}

int memory_find(uint64_t address, uint64_t bytes)
{
    int is_ours = address >= memory.start && address < memory.end;
    cufence_status status = is_ours && !has(address, bytes) ? need(address) : CUFENCE_OK;
    return status == CUFENCE_OK ? has(address, bytes) : -1;
}

static cufence_status refresh_moved(void)
{
    const struct rerun_input *input = memory.moved;
    return input ? driver_check(driver->cuMemcpyDtoD(input->moved_to, input->moved_from, input->moved_bytes), "cuMemcpyDtoD")
                 : CUFENCE_OK;
}

cufence_status memory_refresh(void)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < memory.count && status == CUFENCE_OK; i++)
        status = refresh(&memory.pieces[i]);
    return status == CUFENCE_OK ? refresh_moved() : status;
}

cufence_status memory_move(const struct rerun_input *input)
{
    uint64_t start = input->moved_to / PAGE * PAGE;
    uint64_t bytes = (input->moved_to + input->moved_bytes - start + PAGE - 1) / PAGE * PAGE;
    if (!input->moved_bytes)
        return CUFENCE_OK;
    int found = memory_find(input->moved_from, input->moved_bytes);
    if (found <= 0)
        return found ? CUFENCE_ERROR_SYSTEM : error_set(CUFENCE_ERROR_UNSUPPORTED, "the buffer's memory is not there");
    cufence_status status = add(start, bytes);
    if (status != CUFENCE_OK)
        return status;
    memory.moved = input;
    return refresh_moved();
}

cufence_status memory_tell_results(void)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < memory.count && status == CUFENCE_OK; i++)
        status = keep_hand_over(memory.socket, MESSAGE_RESULT, memory.pieces[i].base, memory.pieces[i].bytes, 0);
    return status;
}

/* ---- patterns in the guards ---- */

static cufence_status put_page(uint64_t *page, uint64_t address)
{
    if (address < memory.start || address + PAGE > memory.end || has(address, 1) || has(address + PAGE - 1, 1))
        return CUFENCE_OK; /* the guard is narrower than a page */
    cufence_status status = *page ? CUFENCE_OK : add(address, PAGE);
    if (status == CUFENCE_ERROR_OUT_OF_MEMORY) {
        note("there was no room next to some buffers to see what is written there", &memory.has_noted_pattern);
        return CUFENCE_OK;
    }
    if (status == CUFENCE_OK)
        *page = address;
    return status == CUFENCE_OK ? patterns_write(address, PAGE) : status;
}

static cufence_status remove_page(uint64_t *page)
{
    uint64_t address = *page;
    *page = 0;
    return address ? driver_check(driver->cuMemUnmap(address, PAGE), "cuMemUnmap") : CUFENCE_OK;
}

/* Fills the guards beyond the pages with a pattern of their own, as far as the default guard goes. */
static void fill_far(void)
{
    uint64_t behind = memory.start; /* the end of what the guard in front of the piece has */
    for (size_t i = 0; i < memory.count; i++) {
        const struct piece *piece = &memory.pieces[i];
        uint64_t end = piece->base + piece->bytes, start = piece->base - PAGE;
        uint64_t next = i + 1 < memory.count ? memory.pieces[i + 1].base - PAGE : memory.end;
        uint64_t limit = end + PAGE + FAR < next ? end + PAGE + FAR : next;
        if (piece->has_pattern && piece->base >= memory.start + PAGE)
            patterns_add_far(memory.device, start > behind + FAR ? start - FAR : behind, start);
        if (piece->has_pattern)
            patterns_add_far(memory.device, end + PAGE, limit);
        behind = piece->has_pattern && limit > end + PAGE ? limit : end + PAGE;
    }
}

/* Which of the many places a byte was written to is not known. Returns the number of bytes that have changed. */
static size_t tell_far(void)
{
    char text[160];
    size_t count = patterns_count_far();
    snprintf(text, sizeof text, "at least %zu bytes were written further out of bounds, %llu to %llu MiB away from a buffer",
             count, (unsigned long long)(PAGE >> 20), (unsigned long long)((PAGE + FAR) >> 20));
    if (count)
        note(text, &memory.has_noted_far);
    return count;
}

/* The slack of a copy, up to a page on either side of its buffer; empty if it is not known. */
struct slack {
    uint64_t head, head_bytes, tail, tail_bytes;
};

static struct slack slack_of(const struct piece *piece)
{
    uint64_t before = piece->own_start - piece->base, end = piece->base + piece->bytes, behind = end - piece->own_end;
    if (piece->own_start == piece->own_end)
        return (struct slack){0};
    before = before < PAGE ? before : PAGE;
    behind = behind < PAGE ? behind : PAGE;
    return (struct slack){piece->own_start - before, before, piece->own_end, behind};
}

static cufence_status put_slack(const struct piece *piece)
{
    struct slack slack = slack_of(piece);
    cufence_status status = patterns_write(slack.head, slack.head_bytes);
    return status == CUFENCE_OK ? patterns_write(slack.tail, slack.tail_bytes) : status;
}

cufence_status memory_put_patterns(void)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < memory.count && status == CUFENCE_OK; i++) {
        struct piece *piece = &memory.pieces[i];
        if (!piece->has_pattern)
            continue;
        status = put_page(&piece->before, piece->base - PAGE) ?: put_page(&piece->behind, piece->base + piece->bytes);
        status = status ?: put_slack(piece);
    }
    if (!patterns_has_far())
        fill_far();
    return status == CUFENCE_OK ? patterns_write_far() : status;
}

cufence_status memory_remove_patterns(void)
{
    cufence_status status = patterns_remove_far();
    for (size_t i = 0; i < memory.count && status == CUFENCE_OK; i++) {
        status = remove_page(&memory.pieces[i].before) ?: remove_page(&memory.pieces[i].behind);
    }
    return status;
}

size_t memory_tell_writes(int is_only)
{
    size_t sent = 0;
    for (size_t i = 0; i < memory.count; i++) {
        const uint64_t pages[] = {memory.pieces[i].before, memory.pieces[i].behind};
        for (size_t k = 0; k < 2; k++)
            sent += patterns_tell(pages[k], pages[k] ? PAGE : 0, 0, sent);
    }
    size_t outside = sent + tell_far();
    for (size_t i = 0; i < memory.count && (outside || is_only); i++) {
        struct slack slack = memory.pieces[i].has_pattern ? slack_of(&memory.pieces[i]) : (struct slack){0};
        sent += patterns_tell(slack.head, slack.head_bytes, 1, sent);
        sent += patterns_tell(slack.tail, slack.tail_bytes, 1, sent);
    }
    return outside;
}
