/* The code of a program's kernels, on a driver with modules and libraries that know one kernel each. */
#include "support/test.h"

#include "support/fixture.h"

#include <elf.h>

#include "analysis/lines/cubin.h"
#include "driver/driver.h"
#include "inspect/code/code.h"
#include "inspect/code/unpacked_cubins.h"

/* ---- a driver: the handle of a module, library, kernel or function is the address of the kernel's name; that of the function
 * of a library's kernel is one more ---- */

static CUfunction function_of(const void *module)
{
    return (CUfunction)(uintptr_t)module;
}

static CUresult get_function(CUfunction *function, CUmodule module, const char *name)
{
    *function = function_of(module);
    return strcmp((const char *)module, name) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult get_kernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    *kernel = (CUkernel)(uintptr_t)library;
    return strcmp((const char *)library, name) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult get_kernels_function(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)((uintptr_t)kernel + 1);
    return CUDA_SUCCESS;
}

static CUresult get_library(CUlibrary *library, CUkernel kernel)
{
    *library = (CUlibrary)(uintptr_t)kernel;
    return strcmp((const char *)kernel, "asked") == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static const struct driver usual = {
    .cuModuleGetFunction = get_function, .cuLibraryGetKernel = get_kernel, .cuKernelGetFunction = get_kernels_function};
static const struct driver newer = {.cuModuleGetFunction = get_function, .cuKernelGetLibrary = get_library};
static const struct driver older = {.cuModuleGetFunction = get_function};

static char one[] = "kernel", two[] = "kernel", three[] = "asked"; /* handles */

static const void *found(CUfunction function, const char *name, uint64_t *size)
{
    const char *why = NULL;
    const struct code *code = code_find(function, name, &why);
    assert_true((code == NULL) == (why != NULL));
    *size = code ? code->size : 0;
    return code;
}

static void expect(CUfunction function, const char *name, const char *text)
{
    uint64_t size;
    const struct code *code = found(function, name, &size);
    assert_non_null(code);
    assert_int_equal(size, strlen(text) + 1);
    assert_string_equal((const char *)code->bytes, text);
    code_give_back(code);
}

static void expect_none(CUfunction function, const char *name, const char *reason)
{
    const char *why = NULL;
    assert_null(code_find(function, name, &why));
    assert_string_equal(why, reason);
}

#define UNSEEN "its module was loaded in a way that cufence does not see"

static int start(void **state)
{
    driver = &usual;
    return 0;
}

/* Names do not decide: two modules may have kernels of the same name. */
TEST_WITH(each_module_has_its_own, start, NULL)
{
    char *first = strdup("// one"), *second = strdup("// two");
    code_loaded(one, 0, first);
    code_loaded(two, 0, second);
    memset(first, 'x', strlen(first));
    free(first);
    free(second);
    expect(function_of(one), "kernel", "// one");
    expect(function_of(two), "kernel", "// two");
    expect_none(function_of(one), "another", UNSEEN);
    expect_none((CUfunction)three, "kernel", UNSEEN);
    code_unloaded(one);
    expect_none(function_of(one), "kernel", UNSEEN);
    expect(function_of(two), "kernel", "// two");
    code_unloaded(two);
    code_unloaded(two);
    expect_none(function_of(two), "kernel", UNSEEN);
}

TEST_WITH(libraries_kernels_are_found, start, NULL)
{
    code_loaded(one, 1, "// library");
    expect((CUfunction)one, "kernel", "// library");
    expect((CUfunction)((uintptr_t)one + 1), "kernel", "// library");
    expect_none((CUfunction)two, "kernel", UNSEEN);
    driver = &older;
    expect_none((CUfunction)one, "kernel", UNSEEN);
    driver = &newer;
    code_loaded(three, 1, "// newer");
    expect((CUfunction)three, "any name", "// newer");
    code_unloaded(one);
    code_unloaded(three);
}

/* What was found stays, whatever is unloaded. */
TEST_WITH(what_is_in_use_stays, start, NULL)
{
    uint64_t size;
    char *text = strdup("// stays");
    code_loaded(one, 0, text);
    free(text);
    const struct code *code = found(function_of(one), "kernel", &size);
    code_unloaded(one);
    assert_string_equal((const char *)code->bytes, "// stays");
    assert_ptr_equal(code_hold(code), code);
    code_give_back(code);
    assert_string_equal((const char *)code->bytes, "// stays");
    code_give_back(code);
    code_give_back(NULL);
}

TEST_WITH(the_same_bytes_are_kept_once, start, NULL)
{
    uint64_t size;
    char *text = strdup("// the same");
    code_loaded(one, 0, text);
    code_loaded(two, 0, text);
    free(text);
    const struct code *first = found(function_of(one), "kernel", &size), *second = found(function_of(two), "kernel", &size);
    assert_ptr_equal(first, second);
    code_unloaded(one);
    code_give_back(first);
    code_give_back(second);
    expect(function_of(two), "kernel", "// the same");
    code_unloaded(two);
}

TEST_WITH(files_are_read, start, NULL)
{
    char path[] = "/tmp/cufence-code-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "// file", 7), 7);
    close(fd);
    code_loaded_file(one, 0, path);
    code_loaded_file(two, 1, path);
    unlink(path);
    expect(function_of(one), "kernel", "// file");
    expect((CUfunction)two, "kernel", "// file");
    code_unloaded(one);
    code_unloaded(two);
    code_loaded_file(one, 0, path);
    expect_none(function_of(one), "kernel", UNSEEN);
}

/* ---- forms ---- */

static const struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    char content[32];
} fat_binary = {0xba55ed50, 1, 16, 32, "cubins"};

static const struct {
    uint32_t magic, version;
    const void *data;
    void *unused;
} wrapper = {0x466243b1, 1, &fat_binary, NULL};

TEST_WITH(fat_binaries_are_unwrapped, start, NULL)
{
    uint64_t size;
    const struct code *before = NULL;
    for (int i = 0; i < 2; i++) {
        code_loaded(one, 0, i ? (const void *)&fat_binary : &wrapper);
        const struct code *code = found(function_of(one), "kernel", &size);
        assert_int_equal(size, 48);
        assert_memory_equal(code->bytes, &fat_binary, 48);
        assert_true((const void *)code->bytes != &fat_binary); /* which the program may unload */
        code_unloaded(one);
        code_give_back(before);
        before = code;
    }
    code_give_back(before);
}

TEST_WITH(cubins_end_with_their_last_section, start, NULL)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[2];
        char content[100];
    } cubin = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                   .e_shoff = sizeof(Elf64_Ehdr),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 2},
        .sections = {{.sh_type = SHT_NOBITS, .sh_offset = 100, .sh_size = 1 << 20},
                     {.sh_type = SHT_PROGBITS, .sh_offset = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr), .sh_size = 100}}};
    assert_int_equal(code_size(&cubin), sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr) + 100);
    cubin.sections[1].sh_size = 0;
    assert_int_equal(code_size(&cubin), sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr));
    cubin.header.e_phoff = 1000;
    cubin.header.e_phnum = 1;
    cubin.header.e_phentsize = sizeof(Elf64_Phdr);
    assert_int_equal(code_size(&cubin), 1000 + sizeof(Elf64_Phdr));
    cubin.header.e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(code_size(&cubin), 0);
}

TEST_WITH(other_forms_are_not_kept, start, NULL)
{
    static const char *const forms[] = {"", "!<arch>\nlto", "\1\2\3\4"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        assert_int_equal(code_size(forms[i]), 0);
        code_loaded(one, 0, forms[i]);
        expect_none(function_of(one), "kernel", "its module has a form that cufence does not know");
        code_unloaded(one);
    }
    assert_int_equal(code_size("a"), 2);
}

/* ---- looking ---- */

static int version; /* of the kernel's code; 0: the driver does not tell */

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    *value = version;
    return version && attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get_device(CUdevice *device)
{
    *device = 3;
    return CUDA_SUCCESS;
}

static CUresult get_attribute_there(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    *value = 80;
    return device == 3 && attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct driver telling = {.cuModuleGetFunction = get_function, .cuFuncGetAttribute = get_attribute};
static const struct driver telling_of_kernels = {.cuModuleGetFunction = get_function,
                                                 .cuFuncGetAttribute = get_attribute,
                                                 .cuCtxGetDevice = get_device,
                                                 .cuKernelGetAttribute = get_attribute_there};

struct seen {
    int count;
    unsigned sm[4];
};

static void see(struct span cubin, void *user)
{
    struct seen *seen = user;
    struct cubin_kernel kernel;
    assert_true(seen->count < 4 && cubin_find_kernel(cubin, "normalise", &kernel));
    seen->sm[seen->count++] = kernel.sm;
}

static struct seen look_at(const char *name, int *is_whole)
{
    struct seen seen = {0};
    uint8_t *bytes = fixture_bytes(fixture_read("cubins/%s", name));
    code_loaded(one, 0, bytes);
    free(bytes);
    *is_whole = code_look(function_of(one), one, see, &seen);
    code_unloaded(one);
    return seen;
}

TEST_WITH(the_cubin_that_runs_is_looked_at, start, NULL)
{
    static const char *const names[] = {"values.fatbin", "values_default.fatbin", "values_speed.fatbin"};
    int is_whole;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct seen seen = look_at(names[i], &is_whole);
        assert_true(is_whole && seen.count == 2 && seen.sm[0] == 80 && seen.sm[1] == 90);
        driver = &telling;
        version = 90;
        seen = look_at(names[i], &is_whole);
        assert_true(is_whole && seen.count == 1 && seen.sm[0] == 90);
        version = 86; /* compiled from PTX */
        assert_int_equal(look_at(names[i], &is_whole).count, 0);
        driver = &telling_of_kernels;
        version = 0;
        seen = look_at(names[i], &is_whole);
        assert_true(is_whole && seen.count == 1 && seen.sm[0] == 80);
        driver = &usual;
    }
    assert_true(look_at("values.cubin", &is_whole).count == 1 && is_whole);
    assert_int_equal(unpacked_bytes(), 0); /* all are unloaded */
}

/* ---- PTX ---- */

static unsigned links;
static uint8_t *linked; /* a cubin; NULL: the driver refuses */
static char given[64];  /* the PTX */

static CUresult link_create(unsigned count, CUjit_option *options, void **values, CUlinkState *state)
{
    assert_true(count == 1 && options[0] == CU_JIT_GENERATE_LINE_INFO && values[0]);
    *state = (CUlinkState)&links;
    return CUDA_SUCCESS;
}

static CUresult link_add(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned count,
                         CUjit_option *options, void **values)
{
    assert_true(state == (CUlinkState)&links && type == CU_JIT_INPUT_PTX && count == 0 && size == strlen(data) + 1);
    snprintf(given, sizeof given, "%s", (const char *)data);
    return CUDA_SUCCESS;
}

static useconds_t pause_us;

static CUresult link_complete(CUlinkState state, void **cubin, size_t *size)
{
    __atomic_add_fetch(&links, 1, __ATOMIC_RELEASE);
    usleep(pause_us);
    *cubin = linked;
    *size = linked ? code_size(linked) : 0;
    return linked ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

static CUresult link_destroy(CUlinkState state)
{
    assert_ptr_equal(state, &links);
    return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    return CUDA_SUCCESS;
}

static const struct driver linking = {.cuModuleGetFunction = get_function,
                                      .cuFuncGetAttribute = get_attribute,
                                      .cuLinkCreate = link_create,
                                      .cuLinkAddData = link_add,
                                      .cuLinkComplete = link_complete,
                                      .cuLinkDestroy = link_destroy,
                                      .cuThreadExchangeStreamCaptureMode = exchange};

/* Once, also if the driver refuses, and only where no cubin is the one that runs. */
TEST_WITH(ptx_is_compiled_once, start, NULL)
{
    driver = &linking;
    version = 90;
    for (unsigned i = 0; i < 2; i++) {
        struct seen seen = {0};
        linked = i ? NULL : fixture_bytes(fixture_read("cubins/values.cubin"));
        code_loaded(one, 0, "// ptx");
        for (int k = 0; k < 2; k++)
            assert_int_equal(code_look(function_of(one), one, see, &seen), !i);
        assert_int_equal(seen.count, i ? 0 : 2);
        assert_int_equal(links, i + 1);
        assert_string_equal(given, "// ptx");
        code_unloaded(one);
        free(linked);
    }
    uint8_t *bytes = fixture_bytes(fixture_read("cubins/values_ptx.fatbin"));
    struct seen seen = {0};
    linked = fixture_bytes(fixture_read("cubins/values.cubin"));
    code_loaded(one, 0, bytes);
    version = 80;
    assert_int_equal(code_look(function_of(one), one, see, &seen), 1);
    assert_true(links == 2 && seen.count == 1 && seen.sm[0] == 80);
    version = 75;
    assert_int_equal(code_look(function_of(one), one, see, &seen), 0); /* its PTX is for 80 */
    assert_int_equal(links, 2);
    code_unloaded(one);
    code_loaded(one, 0, bytes);
    version = 90;
    assert_int_equal(code_look(function_of(one), one, see, &seen), 1);
    assert_true(links == 3 && seen.count == 2 && seen.sm[1] == 90 && strstr(given, ".target sm_80"));
    code_unloaded(one);
    free(linked);
    free(bytes);
}

static void *look_too(void *seen)
{
    return (void *)(intptr_t)code_look(function_of(one), one, see, seen);
}

/* A second thread waits for what the first one compiles, and does not take it for unknown. */
TEST_WITH(two_threads_look_at_ptx, start, NULL)
{
    struct seen seen[2] = {0};
    pthread_t thread;
    void *is_found;
    unsigned before = links;
    driver = &linking;
    version = 90;
    linked = fixture_bytes(fixture_read("cubins/values.cubin"));
    pause_us = 100000;
    code_loaded(one, 0, "// ptx");
    assert_int_equal(pthread_create(&thread, NULL, look_too, &seen[0]), 0);
    while (__atomic_load_n(&links, __ATOMIC_ACQUIRE) == before)
        usleep(1000);
    assert_int_equal(code_look(function_of(one), one, see, &seen[1]), 1);
    assert_int_equal(pthread_join(thread, &is_found), 0);
    assert_true(is_found && links == before + 1 && seen[0].count == 1 && seen[1].count == 1);
    pause_us = 0;
    code_unloaded(one);
    free(linked);
}

/* Of one that is damaged all that the kernel may do is not known. */
TEST_WITH(a_damaged_cubin_is_not_looked_at, start, NULL)
{
    struct seen seen = {0};
    uint8_t *bytes = fixture_bytes(fixture_read("cubins/values_default.fatbin"));
    memset(bytes + 16 + 64, 0, 64);
    code_loaded(one, 0, bytes);
    free(bytes);
    assert_int_equal(code_look(function_of(one), one, see, &seen), 0);
    assert_int_equal(seen.count, 0);
    code_unloaded(one);
}
