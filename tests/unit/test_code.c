/* The code of a program's kernels, on a driver with modules and libraries that know one kernel each. */
#include "support/test.h"

#include "support/fixture.h"

#include <elf.h>

#include "analysis/lines/cubin.h"
#include "driver/driver.h"
#include "inspect/code/code.h"

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

static CUresult get_no_module(CUmodule *module, CUfunction function)
{
    return CUDA_ERROR_INVALID_HANDLE;
}

static const struct driver usual = {
    .cuModuleGetFunction = get_function, .cuLibraryGetKernel = get_kernel, .cuKernelGetFunction = get_kernels_function};
static const struct driver newer = {
    .cuModuleGetFunction = get_function, .cuFuncGetModule = get_no_module, .cuKernelGetLibrary = get_library};

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

/* Compressed or not; what is damaged is left out. */
TEST_WITH(the_cubin_of_an_architecture_is_looked_at, start, NULL)
{
    static const char *const names[] = {"values.cubin", "values.fatbin", "values_default.fatbin", "values_speed.fatbin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct seen seen = {0};
        uint8_t *bytes = fixture_bytes(fixture_read("cubins/%s", names[i]));
        code_loaded(one, 0, bytes);
        code_look_named("kernel", 90, see, &seen);
        assert_true(seen.count == 1 && seen.sm[0] == 90);
        code_look_named("none", 90, see, &seen);
        code_unloaded(one);
        memset(bytes + 16 + 64, 0, 64);
        code_loaded(one, 0, bytes);
        if (i > 1)
            code_look_named("kernel", 80, see, &seen); /* the first one */
        assert_int_equal(seen.count, 1);
        code_unloaded(one);
        free(bytes);
    }
}
