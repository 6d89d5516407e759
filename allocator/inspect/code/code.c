#include "code.h"

#include "analysis/lines/fatbin.h"
#include "base/image.h"
#include "base/lock.h"
#include "base/aside.h"
#include "driver/driver.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kept {
    struct code code; /* first: it is what code_find() returns. bytes NULL: they could not be kept */
    unsigned references;
    int is_own;       /* code.bytes is on the heap, else in a file that is loaded ... */
    const void *file; /* ... with its headers at this address */
    const char *why;  /* there are no bytes */
};

struct loaded {
    struct loaded *next;
    const void *handle;
    int is_library;
    struct kept *kept;
};

/* Held while the driver is asked for a kernel, so that nothing is unloaded meanwhile; the driver calls none of our hooks. */
static struct lock lock = LOCK(RANK_CODE);
static struct loaded *newest; /* under the lock, as is this: */
static uint64_t own_bytes;

int code_is_kept;

void code_keep(void)
{
    code_is_kept = 1;
}

/* ---- how large an image is ---- */

static uint64_t size_of_cubin(const uint8_t *image)
{
    struct image opened;
    return image_open(image, SIZE_MAX / 2, &opened) ? image_end(&opened) : 0; /* nobody says how much is there */
}

/* Text is compared first: it may be shorter than a number. */
static int is_text(const char *image)
{
    size_t length = strnlen(image, 4);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)image[i] >= 127 || ((unsigned char)image[i] < ' ' && !strchr("\t\r\n", image[i])))
            return 0;
    return length != 0 && strncmp(image, "!<ar", 4) != 0;
}

uint64_t code_size(const void *image)
{
    if (!*(const char *)image)
        return 0;
    if (is_text(image))
        return strlen(image) + 1;
    if (!memcmp(image, ELFMAG, SELFMAG))
        return size_of_cubin(image);
    return load_u32(image) == FATBIN_MAGIC ? fatbin_size(image) : 0;
}

/* A wrapper: number, version, pointer to the container. */
static const void *unwrapped(const void *image)
{
    const void *inner = image;
    if (*(const char *)image && !is_text(image) && load_u32(image) == FATBIN_WRAPPER)
        memcpy(&inner, (const char *)image + 8, sizeof inner);
    return inner;
}

/* ---- keeping ---- */

/* Copies the bytes, if there is room. */
static int own_locked(struct kept *kept, const void *bytes)
{
    uint8_t *copy = kept->code.size <= CODE_MOST - own_bytes ? malloc(kept->code.size) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, bytes, kept->code.size);
    own_bytes += kept->code.size;
    kept->code.bytes = copy;
    kept->is_own = 1;
    return 1;
}

static void release_locked(struct kept *kept)
{
    lock_expect(RANK_CODE);
    if (--kept->references)
        return;
    if (kept->is_own) {
        own_bytes -= kept->code.size;
        free((void *)(uintptr_t)kept->code.bytes);
    }
    free(kept);
}

/* What the program has loaded before with the same bytes, kept once. */
static struct kept *find_same_locked(const void *bytes, uint64_t size)
{
    for (struct loaded *at = newest; at; at = at->next) {
        const struct code *code = &at->kept->code;
        if (code->size == size && (code->bytes == bytes || (at->kept->is_own && !memcmp(code->bytes, bytes, size))))
            return at->kept;
    }
    return NULL;
}

struct looked_up {
    uint64_t address;
    uint64_t file; /* the address of its headers */
    int is_found;
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *user)
{
    struct looked_up *found = user;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum && !found->is_found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        found->is_found = segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) &&
                          found->address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz;
    }
    found->file = (uint64_t)(uintptr_t)info->dlpi_phdr;
    return found->is_found;
}

/* Returns the headers of the loaded file in whose constant data the bytes are, NULL if they are elsewhere and may change. */
static const void *file_of(const void *bytes)
{
    struct looked_up found = {.address = (uint64_t)(uintptr_t)bytes};
    dl_iterate_phdr(find_segment, &found);
    return found.is_found ? (const void *)(uintptr_t)found.file : NULL;
}

static struct kept *keep_locked(const void *image)
{
    lock_expect(RANK_CODE);
    const void *bytes = unwrapped(image);
    uint64_t size = code_size(bytes);
    struct kept *kept = size ? find_same_locked(bytes, size) : NULL;
    if (kept || !(kept = calloc(1, sizeof *kept)))
        return kept;
    kept->code.size = size;
    if (!size) {
        kept->why = "its module has a form that cufence does not know";
    } else if ((kept->file = file_of(bytes)) != NULL) {
        kept->code.bytes = bytes;
    } else if (!own_locked(kept, bytes)) {
        kept->why = "the host had no room for a copy of its module";
    }
    return kept;
}

void code_loaded(const void *handle, int is_library, const void *image)
{
    struct loaded *loaded = handle ? malloc(sizeof *loaded) : NULL;
    if (!loaded)
        return;
    HOLD(&lock);
    *loaded = (struct loaded){newest, handle, is_library, keep_locked(image)};
    if (loaded->kept) {
        loaded->kept->references++;
        newest = loaded;
    } else {
        free(loaded);
    }
}

/* Returns the content with a NUL behind it, or NULL. */
static char *read_file(const char *path)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *content = NULL;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && (uint64_t)file.st_size <= CODE_MOST &&
        (content = calloc(1, (size_t)file.st_size + sizeof(Elf64_Ehdr))) != NULL &&
        read(fd, content, (size_t)file.st_size) != file.st_size) {
        free(content);
        content = NULL;
    }
    if (fd >= 0)
        close(fd);
    return content;
}

struct loading {
    const void *handle;
    int is_library;
    const char *path;
};

static void load_file(void *argument)
{
    const struct loading *loading = argument;
    char *content = read_file(loading->path);
    if (content)
        code_loaded(loading->handle, loading->is_library, content);
    free(content);
}

void code_loaded_file(const void *handle, int is_library, const char *path)
{
    struct loading loading = {handle, is_library, path};
    aside_call(load_file, &loading);
}

void code_unloaded(const void *handle)
{
    HOLD(&lock);
    for (struct loaded **at = &newest; *at; at = &(*at)->next) {
        struct loaded *loaded = *at;
        if (loaded->handle != handle)
            continue;
        *at = loaded->next;
        release_locked(loaded->kept);
        free(loaded);
        break;
    }
}

/* ---- finding ---- */

/* Returns the kernel of that name, of a library a CUkernel cast to it; NULL if there is none. A driver that loads libraries has
 * the functions that ask for their kernels: CUDA 12.0. */
static CUfunction kernel_in(const struct loaded *loaded, const char *name)
{
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    if (!loaded->is_library)
        return driver->cuModuleGetFunction(&function, (CUmodule)(uintptr_t)loaded->handle, name) == CUDA_SUCCESS ? function
                                                                                                                 : NULL;
    int is_there = driver->cuLibraryGetKernel(&kernel, (CUlibrary)(uintptr_t)loaded->handle, name) == CUDA_SUCCESS;
    return is_there ? (CUfunction)kernel : NULL;
}

/* The runtime launches a library's CUkernel; others a function that was made of it. */
static int has_kernel(const struct loaded *loaded, CUfunction kernel, const char *name)
{
    CUfunction found = kernel_in(loaded, name), function = NULL;
    return found == kernel || (found && loaded->is_library &&
                               driver->cuKernelGetFunction(&function, (CUkernel)found) == CUDA_SUCCESS && function == kernel);
}

static struct kept *find_locked(CUfunction kernel, const char *name)
{
    lock_expect(RANK_CODE);
    CUlibrary library = NULL;
    if (driver->cuKernelGetLibrary && driver->cuKernelGetLibrary(&library, (CUkernel)kernel) != CUDA_SUCCESS)
        library = NULL;
    for (struct loaded *at = newest; at; at = at->next)
        if (library ? at->handle == (const void *)library : has_kernel(at, kernel, name))
            return at->kept;
    return NULL;
}

/* Whether the bytes can be read: own ones, or those of a file that is still loaded. */
static int is_there(const struct kept *kept)
{
    return kept->is_own || (kept->code.bytes && file_of(kept->code.bytes) == kept->file);
}

/* Returns NULL if the bytes are the entry's own now, else why they are not. */
static const char *secure_locked(struct kept *kept)
{
    if (!kept)
        return "its module was loaded in a way that cufence does not see";
    if (kept->is_own || kept->why)
        return kept->why;
    if (!is_there(kept))
        return "the file that has its module is no longer loaded";
    return own_locked(kept, kept->code.bytes) ? NULL : "the host had no room for a copy of its module";
}

const struct code *code_find(CUfunction kernel, const char *name, const char **why)
{
    HOLD(&lock);
    struct kept *kept = find_locked(kernel, name);
    *why = secure_locked(kept);
    if (!*why)
        kept->references++;
    return *why ? NULL : &kept->code;
}

const struct code *code_hold(const struct code *code)
{
    HOLD(&lock);
    ((struct kept *)(uintptr_t)code)->references++;
    return code;
}

void code_give_back(const struct code *code)
{
    if (!code)
        return;
    HOLD(&lock);
    release_locked((struct kept *)(uintptr_t)code);
}

/* ---- reading ---- */

/* The runtime passes a CUkernel as a CUfunction. The cuFunc* queries fail for it with an error. */
const void *code_module_of(CUfunction function)
{
    CUmodule module;
    CUlibrary library;
    if (driver->cuFuncGetModule(&module, function) == CUDA_SUCCESS)
        return module;
    if (driver->cuKernelGetLibrary && driver->cuKernelGetLibrary(&library, (CUkernel)function) == CUDA_SUCCESS)
        return library;
    return NULL;
}

static void look_at(struct kept *kept, uint32_t sm, void (*look)(struct span cubin, void *user), void *user)
{
    struct span file = {kept->code.bytes, kept->code.size};
    struct fatbin_image image;
    uint64_t at = 0;
    if (file.size >= SELFMAG && memcmp(file.bytes, ELFMAG, SELFMAG) == 0)
        look(file, user);
    if (file.size < FATBIN_HEADER || fatbin_size(file.bytes) == 0)
        return;
    while (fatbin_next(file, &at, &image) > 0) {
        uint8_t *bytes = image.kind == FATBIN_CUBIN && image.sm == sm ? malloc(image.size) : NULL;
        if (bytes && fatbin_unpack(&image, bytes))
            look((struct span){bytes, image.size}, user);
        free(bytes);
    }
}

void code_look_named(const char *name, uint32_t sm, void (*look)(struct span cubin, void *user), void *user)
{
    HOLD(&lock);
    for (struct loaded *at = newest; at; at = at->next)
        if (kernel_in(at, name) && is_there(at->kept))
            look_at(at->kept, sm, look, user);
}
