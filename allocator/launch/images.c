#include "images.h"

#include "analysis/lines/fatbin.h"
#include "driver/driver.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

struct loaded {
    struct loaded *next;
    const void *handle;
    const uint8_t *bytes;
    uint64_t size;
    uint8_t *copy; /* NULL: they are the program's */
};

int images_are_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf; guards what follows */
static struct loaded *buckets[BUCKETS];
static uint64_t copied; /* bytes */

void images_open(void)
{
    images_are_kept = 1;
}

static struct loaded **bucket_of(const void *handle)
{
    return &buckets[((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 32) % BUCKETS];
}

/* Returns the bytes of an ELF file that the driver has accepted: up to the end of its last section or header. */
static uint64_t elf_size(const uint8_t *bytes)
{
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    uint64_t end = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    uint64_t program = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
    end = program > end ? program : end;
    for (uint32_t i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr); i++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
            end = section.sh_offset + section.sh_size;
    }
    return end;
}

/* Returns the bytes of an image, 0 for PTX. */
static uint64_t size_of(const void **image)
{
    uint32_t magic;
    const uint8_t *bytes = *image;
    if (!memchr(bytes, 0, 4)) /* text may be shorter */
        memcpy(&magic, bytes, sizeof magic);
    else
        return 0;
    if (magic == FATBIN_WRAPPER) {
        memcpy(&bytes, bytes + 8, sizeof bytes);
        *image = bytes;
        return bytes ? fatbin_size(bytes) : 0;
    }
    if (magic == FATBIN_MAGIC)
        return fatbin_size(bytes);
    return memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64 ? elf_size(bytes) : 0;
}

static void remove_locked(const void *handle)
{
    for (struct loaded **at = bucket_of(handle); *at;) {
        struct loaded *found = *at;
        if (found->handle != handle) {
            at = &found->next;
            continue;
        }
        *at = found->next;
        copied -= found->copy ? found->size : 0;
        free(found->copy);
        free(found);
    }
}

static void add(const struct loaded *wanted)
{
    struct loaded *made = malloc(sizeof *made), **bucket = bucket_of(wanted->handle);
    pthread_mutex_lock(&lock);
    remove_locked(wanted->handle);
    int has_room = made && (!wanted->copy || copied + wanted->size <= IMAGES_MOST);
    if (has_room) {
        *made = *wanted;
        made->next = *bucket;
        *bucket = made;
        copied += made->copy ? made->size : 0;
    }
    pthread_mutex_unlock(&lock);
    if (!has_room) {
        free(wanted->copy);
        free(made);
    }
}

/* Whether there is a cubin that can be read. */
static int is_of_use(struct span file)
{
    uint64_t at = 0;
    int has_others = 0;
    return fatbin_size(file.bytes) == 0 || fatbin_next(file, &at, &has_others).bytes;
}

void images_loaded(const void *handle, const void *image, int is_preserved)
{
    struct loaded made = {.handle = handle, .size = image ? size_of(&image) : 0};
    made.bytes = image;
    if (!made.size || made.size > IMAGES_MOST || !is_of_use((struct span){made.bytes, made.size}))
        return;
    if (!is_preserved) {
        made.copy = malloc(made.size);
        if (!made.copy)
            return;
        memcpy(made.copy, image, made.size);
        made.bytes = made.copy;
    }
    add(&made);
}

void images_loaded_file(const void *handle, const char *path)
{
    struct loaded made = {.handle = handle};
    FILE *file = path ? fopen(path, "rbe") : NULL;
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size > 0 && (uint64_t)size <= IMAGES_MOST && fseek(file, 0, SEEK_SET) == 0)
        made.copy = malloc((size_t)size);
    made.size = made.copy ? fread(made.copy, 1, (size_t)size, file) : 0;
    if (file)
        fclose(file);
    made.bytes = made.copy;
    if (made.size)
        add(&made);
    else
        free(made.copy);
}

void images_gone(const void *handle)
{
    pthread_mutex_lock(&lock);
    remove_locked(handle);
    pthread_mutex_unlock(&lock);
}

/* The runtime passes a CUkernel as a CUfunction. The cuFunc* queries fail for it with an error. */
const void *images_module_of(CUfunction function)
{
    CUmodule module;
    CUlibrary library;
    if (driver->cuFuncGetModule && driver->cuFuncGetModule(&module, function) == CUDA_SUCCESS)
        return module;
    if (driver->cuKernelGetLibrary && driver->cuKernelGetLibrary(&library, (CUkernel)function) == CUDA_SUCCESS)
        return library;
    return NULL;
}

static int look_at(struct span file, void (*look)(struct span cubin, void *user), void *user)
{
    struct span cubin;
    uint64_t at = 0;
    int has_others = 0;
    if (file.size < SELFMAG)
        return 0;
    if (memcmp(file.bytes, ELFMAG, SELFMAG) == 0) {
        look(file, user);
        return 1;
    }
    if (file.size < 16 || fatbin_size(file.bytes) > file.size)
        return 0;
    while ((cubin = fatbin_next(file, &at, &has_others)).bytes)
        look(cubin, user);
    return !has_others;
}

int images_look(const void *handle, void (*look)(struct span cubin, void *user), void *user)
{
    int is_whole = 0;
    pthread_mutex_lock(&lock);
    for (struct loaded *at = *bucket_of(handle); at; at = at->next) {
        if (at->handle == handle)
            is_whole = look_at((struct span){at->bytes, at->size}, look, user);
    }
    pthread_mutex_unlock(&lock);
    return is_whole;
}
