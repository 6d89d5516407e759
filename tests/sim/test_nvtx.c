/*
 * What a pool tells through NVTX's memory extension, in the toolkit's own header: the tests link cufence, so NVTX finds it as a
 * tool that is linked statically. tests/python/test_adapters.py has a program that knows nothing of cufence.
 */
#include "pokes.h"

#if __has_include(<nvtx3/nvToolsExtMem.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wundef"
#include <nvtx3/nvToolsExtMem.h>
#pragma GCC diagnostic pop

int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

#define POOL (64u << 10)

static char *pool;
static nvtxMemHeapHandle_t heap;

static nvtxMemHeapHandle_t heap_of(uint32_t usage, const char *name)
{
    const nvtxMemVirtualRangeDesc_t range = {POOL, pool};
    const nvtxMemHeapDesc_t desc = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                    .structSize = sizeof desc,
                                    .usage = usage,
                                    .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                    .typeSpecificDescSize = sizeof range,
                                    .typeSpecificDesc = &range,
                                    .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                    .message.ascii = name};
    return nvtxMemHeapRegister(NULL, &desc);
}

static void begin(uint32_t usage)
{
    unsetenv("NVTX_INJECTION64_PATH");
    InitializeInjectionNvtxExtension_fnptr = InitializeInjectionNvtxExtension;
    start("");
    pool = allocate(POOL, NULL);
    heap = heap_of(usage, "slab");
    CHECK(heap != NULL);
}

static char *piece(size_t at, size_t size)
{
    const nvtxMemVirtualRangeDesc_t ranges[] = {{size, pool + at}};
    nvtxMemRegionHandle_t handle = NULL;
    const nvtxMemRegionsRegisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                                 .structSize = sizeof batch,
                                                 .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                                 .heap = heap,
                                                 .regionCount = 1,
                                                 .regionDescElementSize = sizeof ranges[0],
                                                 .regionDescElements = ranges,
                                                 .regionHandleElementsOut = &handle};
    nvtxMemRegionsRegister(NULL, &batch);
    CHECK((char *)handle == pool + at);
    return pool + at;
}

static void gone(const char *address)
{
    const nvtxMemRegionRef_t refs[] = {{.pointer = address}};
    const nvtxMemRegionsUnregisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                                   .structSize = sizeof batch,
                                                   .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                                   .refCount = 1,
                                                   .refElementSize = sizeof refs[0],
                                                   .refElements = refs};
    nvtxMemRegionsUnregister(NULL, &batch);
}

static void resized(const char *address, size_t size)
{
    const nvtxMemVirtualRangeDesc_t range = {size, address};
    const nvtxMemRegionsResizeBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                               .structSize = sizeof batch,
                                               .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                               .regionDescCount = 1,
                                               .regionDescElementSize = sizeof range,
                                               .regionDescElements = &range};
    nvtxMemRegionsResize(NULL, &batch);
}

static void named(const char *address, const char *name)
{
    const nvtxMemRegionNameDesc_t desc = {.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                          .nameType = NVTX_MESSAGE_TYPE_ASCII,
                                          .region.pointer = address,
                                          .name.ascii = name};
    const nvtxMemRegionsNameBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                             .structSize = sizeof batch,
                                             .regionCount = 1,
                                             .regionElementSize = sizeof desc,
                                             .regionElements = &desc};
    nvtxMemRegionsName(NULL, &batch);
}

static const char *at(const char *address)
{
    static cufence_description where;
    CHECK_OK(cufence_describe(address, &where));
    return where.region;
}

CLEAN(pieces_come_and_go)
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    char *first = piece(0, 1000), *second = piece(1024, 2000);
    CHECK(strstr(at(first + 999), "slab") && strstr(at(first + 999), "live"));
    CHECK(strstr(at(first + 1000), "padding in slab") && strstr(at(first + 1000), "free"));
    CHECK(strstr(at(second + 2000), "padding in slab"));
    CHECK(at(second + 2000 + 4096)[0] == '\0');
    named(second, "weights");
    CHECK(strstr(at(second), "owner weights"));
    write_at(first, 1000, 1, NULL);
    gone(first);
    CHECK(strstr(at(first), "free"));
    first = piece(0, 500); /* the head of it is handed out again */
    CHECK(strstr(at(first), "live") && strstr(at(first + 500), "padding in slab"));
    write_at(first, 500, 1, NULL);
    write_at(second, 2000, 1, NULL);
    resized(first, 1000);
    write_at(first, 1000, 1, NULL);
    resized(second, 100);
    CHECK(strstr(at(second + 100), "padding in slab"));
    CHECK(cufence_check(-1) == 0);
    nvtxMemHeapReset(NULL, heap);
    CHECK(at(first)[0] == '\0' && at(first + 1000)[0] == '\0');
    first = piece(0, 1000);
    nvtxMemHeapUnregister(NULL, heap);
    CHECK(at(first)[0] == '\0');
    release(pool, NULL);
}

/* The stream is one that the legacy default stream does not wait for, and is still busy with the piece when that is given back.
 */
CLEAN(a_piece_may_be_in_use_when_it_is_given_back)
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    CUstream stream = new_stream();
    for (int i = 0; i < 20; i++) {
        char *one = piece(0, 1000);
        write_at(one, 1000, 7, stream);
        gone(one);
        one = piece(0, 1000);
        write_at(one, 1000, 3, stream);
        CHECK(sum_at(one, 1000, stream) == 3000);
        gone(one);
    }
    CHECK(cufence_check(-1) == 0);
}

FINDS(write_past_a_piece_into_its_padding, "padding in slab")
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    char *first = piece(0, 1000);
    piece(1024, 1000);
    write_at(first, 1008, 1, NULL);
    CHECK(cufence_check(-1) == 1);
}

FINDS(write_into_a_piece_that_was_given_back, "slab")
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    char *first = piece(0, 1000);
    gone(first);
    write_at(first + 10, 1, 1, NULL);
    piece(0, 2000); /* checks what it is made of */
    CHECK(cufence_check(-1) >= 0);
}

/* Memory of a layout, and of no heap, may be used where no region is. */
CLEAN(layouts_have_no_padding)
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_LAYOUT);
    char *first = piece(0, 1000);
    CHECK(at(first + 1000)[0] == '\0');
    gone(first);
    CHECK(at(first)[0] == '\0');
    heap = NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE;
    piece(100, 1000);
    CHECK(strstr(at(pool + 100), "live"));
    nvtxMemHeapReset(NULL, NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE);
    CHECK(at(pool + 100)[0] == '\0');
}

/* A heap whose buffer was freed without a word: its pieces are gone with it, and those of the next buffer there are new. */
CLEAN(a_freed_heap_leaves_nothing)
{
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    piece(0, 1000);
    gone(pool);
    release(pool, NULL);
    pool = allocate(POOL, NULL);
    heap = heap_of(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, NULL);
    CHECK(at(pool)[0] == '\0');
    write_at(pool, 1000, 1, NULL);
    piece(0, 1000);
    CHECK(strstr(at(pool + 1000), "padding in a pool"));
}

/* What is told of memory that cufence does not guard, or that makes no sense, has no effect. */
CLEAN(nonsense_is_passed_over)
{
    static char other[100];
    begin(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    piece(POOL - 10, 20);
    piece(0, 0);
    CHECK(at(pool)[0] == '\0' && at(pool + POOL - 5)[0] == '\0');
    gone(pool);
    resized(pool, 10);
    named(pool, "nothing");
    nvtxMemHeapUnregister(NULL, (nvtxMemHeapHandle_t)(uintptr_t)other);
    nvtxMemHeapReset(NULL, (nvtxMemHeapHandle_t)(uintptr_t)other);
    char *guarded = pool;
    pool = other;
    heap = heap_of(NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, "host");
    piece(0, 50);
    gone(other);
    CHECK(nvtxMemPermissionsCreate(NULL, 0) == NULL); /* no tool for these */
    release(guarded, NULL);
}

#else
CLEAN(no_header)
{
    fprintf(stderr, "this toolkit has no nvtx3/nvToolsExtMem.h: nothing is tested\n");
}
#endif

TEST_CONCURRENTLY
