/*
 * Measures how long a report takes after a fault with every multiprocessor full: from the first byte of the core dump to the
 * report.
 *
 *   bench_dump FIXTURE [CTAS WARPS [PIECES [FAULTED]]]
 *
 * FIXTURE is a recorded dump with a live faulting warp (tests/fixtures/store_live.core.gz). Its warp is copied to every
 * multiprocessor, CTAS times WARPS times (default 32 and 2), and the dump is written into cufence's FIFO. PIECES=1 (default)
 * writes each section separately, as an unbuffered writer does; 0 writes 1 MiB at a time. With FAULTED=0 only the first warp
 * has faulted, with 1 (default) every warp. Runs on the simulated device (CUFENCE_DRIVER=sim), which is not measured.
 */
#include <cuda.h>
#include <cufence.h>

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define MUST(condition)                                                                                                        \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(2);                                                                                                           \
        }                                                                                                                      \
    } while (0)

enum { REGISTERS = 5, BACKTRACE = 8, SMS = 11, CTAS = 13, WARPS = 14, LANES = 15, PREDICATES = 17, UNIFORMS = 19 };
enum { UNIFORM_PREDICATES = 20, BARRIERS = 23 };                       /* section types minus 0x80000000 */
enum { WARP_ERROR_PC_VALID = 24, LANE_EXCEPTION = 32, CTA_BLOCK = 8 }; /* offsets in rows, as in analysis/dump/coredump.c */

/* The recorded dump. */
static unsigned char recorded[4 << 20];
static size_t recorded_size;
static const Elf64_Shdr *sections;
static uint64_t section_count;

/* The dump made from it. */
static unsigned char *made;
static size_t made_size, made_room;
static Elf64_Shdr *headers;
static size_t header_count, header_room;

static void put(const void *bytes, size_t size)
{
    while (made_size + size > made_room)
        MUST(made = realloc(made, made_room = made_room ? made_room * 2 : 1 << 24));
    memcpy(made + made_size, bytes, size);
    made_size += size;
}

static uint32_t add(Elf64_Shdr header, const void *bytes, size_t size)
{
    if (header_count == header_room)
        MUST(headers = realloc(headers, (header_room = header_room ? header_room * 2 : 4096) * sizeof *headers));
    header.sh_offset = made_size;
    header.sh_size = size;
    put(bytes, size);
    headers[header_count] = header;
    return (uint32_t)header_count++;
}

static void read_fixture(const char *name)
{
    gzFile file = gzopen(name, "rb");
    MUST(file);
    int got = gzread(file, recorded, sizeof recorded);
    gzclose(file);
    MUST(got > (int)sizeof(Elf64_Ehdr));
    recorded_size = (size_t)got;
    const Elf64_Ehdr *file_header = (const Elf64_Ehdr *)recorded;
    sections = (const Elf64_Shdr *)(recorded + file_header->e_shoff);
    section_count = file_header->e_shnum;
    MUST(section_count > 1 && file_header->e_shoff + section_count * sizeof *sections <= recorded_size);
}

/* Returns the section of a type that belongs to a row of another section; link 0: any. */
static const Elf64_Shdr *section_of(unsigned type, uint32_t link, uint32_t row)
{
    for (uint64_t i = 1; i < section_count; i++) {
        if (sections[i].sh_type == 0x80000000u + type && (!link || (sections[i].sh_link == link && sections[i].sh_info == row)))
            return &sections[i];
    }
    return NULL;
}

static uint32_t index_of(const Elf64_Shdr *section)
{
    return (uint32_t)(section - sections);
}

/* Adds `count` copies of a section's first row, under a row of another section. */
static uint32_t add_rows(const Elf64_Shdr *like, uint32_t link, uint32_t row, unsigned count)
{
    static unsigned char rows[1 << 16];
    MUST(like->sh_entsize * count <= sizeof rows);
    for (unsigned i = 0; i < count; i++)
        memcpy(rows + i * like->sh_entsize, recorded + like->sh_offset, like->sh_entsize);
    Elf64_Shdr header = *like;
    header.sh_link = link;
    header.sh_info = row;
    return add(header, rows, like->sh_entsize * count);
}

static uint32_t add_like(const Elf64_Shdr *like, uint32_t link, uint32_t row)
{
    Elf64_Shdr header = *like;
    header.sh_link = link;
    header.sh_info = row;
    return add(header, recorded + like->sh_offset, like->sh_size);
}

static void clear_word(uint32_t section, size_t at)
{
    memset(made + headers[section].sh_offset + at, 0, sizeof(uint32_t));
}

static void add_warp(const Elf64_Shdr *warps, uint32_t under, uint32_t row, int is_faulted)
{
    static const unsigned of_warp[] = {UNIFORMS, UNIFORM_PREDICATES, BARRIERS};
    static const unsigned of_lane[] = {REGISTERS, PREDICATES, BACKTRACE};
    const Elf64_Shdr *lanes = section_of(LANES, index_of(warps), 0), *found;
    MUST(lanes);
    uint32_t table = add_like(lanes, under, row);
    for (size_t i = 0; i < sizeof of_warp / sizeof *of_warp; i++) {
        if ((found = section_of(of_warp[i], index_of(warps), 0)) != NULL)
            add_like(found, under, row);
    }
    for (uint32_t lane = 0; lane < lanes->sh_size / lanes->sh_entsize; lane++) {
        for (size_t i = 0; i < sizeof of_lane / sizeof *of_lane; i++) {
            if ((found = section_of(of_lane[i], index_of(lanes), lane)) != NULL)
                add_like(found, table, lane);
        }
        if (!is_faulted)
            clear_word(table, lane * lanes->sh_entsize + LANE_EXCEPTION);
    }
}

static void make_dump(unsigned cta_count, unsigned warp_count, int is_faulted)
{
    const Elf64_Shdr *sms = section_of(SMS, 0, 0), *ctas = NULL, *warps = NULL;
    MUST(sms);
    for (uint32_t row = 0; !warps && row < sms->sh_size / sms->sh_entsize; row++) {
        MUST(ctas = section_of(CTAS, index_of(sms), row));
        warps = section_of(WARPS, index_of(ctas), 0);
    }
    MUST(warps);
    put(recorded, sizeof(Elf64_Ehdr));
    add((Elf64_Shdr){0}, "", 0);
    for (uint64_t i = 1; i < section_count; i++)
        add(sections[i], recorded + sections[i].sh_offset, sections[i].sh_size);
    for (uint32_t sm = 0; sm < sms->sh_size / sms->sh_entsize; sm++) {
        if (sm == ctas->sh_info)
            continue;
        uint32_t cta_table = add_rows(ctas, index_of(sms), sm, cta_count);
        for (uint32_t cta = 0; cta < cta_count; cta++) {
            uint32_t block = sm * cta_count + cta;
            memcpy(made + headers[cta_table].sh_offset + cta * ctas->sh_entsize + CTA_BLOCK, &block, sizeof block);
            uint32_t warp_table = add_rows(warps, cta_table, cta, warp_count);
            for (uint32_t warp = 0; warp < warp_count; warp++) {
                if (!is_faulted)
                    clear_word(warp_table, warp * warps->sh_entsize + WARP_ERROR_PC_VALID);
                add_warp(warps, warp_table, warp, is_faulted);
            }
        }
    }
    Elf64_Ehdr *file_header = (Elf64_Ehdr *)made;
    file_header->e_shoff = made_size;
    file_header->e_shnum = header_count < SHN_LORESERVE ? (uint16_t)header_count : 0;
    headers[0] = (Elf64_Shdr){.sh_size = header_count};
    put(headers, header_count * sizeof *headers);
}

static void write_all(int fd, const unsigned char *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        MUST(written > 0);
        bytes += written;
        size -= (size_t)written;
    }
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void write_dump(int fd, int in_pieces)
{
    size_t at = 0;
    for (size_t i = 1; in_pieces && i < header_count; i++) {
        size_t end = headers[i].sh_offset + headers[i].sh_size;
        write_all(fd, made + at, end - at);
        at = end;
    }
    while (at < made_size) {
        size_t part = in_pieces ? sizeof(Elf64_Shdr) : 1 << 20;
        part = part < made_size - at ? part : made_size - at;
        write_all(fd, made + at, part);
        at += part;
    }
    close(fd);
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s FIXTURE [CTAS WARPS [PIECES [FAULTED]]]\n", arguments[0]);
        return 2;
    }
    unsigned ctas = count > 3 ? (unsigned)atoi(arguments[2]) : 32, warps = count > 3 ? (unsigned)atoi(arguments[3]) : 2;
    int in_pieces = count > 4 ? atoi(arguments[4]) : 1, is_faulted = count > 5 ? atoi(arguments[5]) : 1;
    char path[1024] = "";
    size_t size = sizeof path;
    read_fixture(arguments[1]);
    make_dump(ctas, warps, is_faulted);
    MUST(cufence_init("say=verbose,on_fault=continue,exitcode=0") == CUFENCE_OK);
    MUST(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, path, &size) == CUDA_SUCCESS);
    int fd = open(path, O_WRONLY);
    MUST(fd >= 0);
    double begin = now_ms();
    write_dump(fd, in_pieces);
    double written = now_ms();
    while (!cufence_fault_count())
        usleep(500);
    double reported = now_ms();
    printf("%zu sections, %.1f MiB: written in %.0f ms, report after %.0f ms\n", header_count, (double)made_size / (1 << 20),
           written - begin, reported - begin);
    return 0;
}
