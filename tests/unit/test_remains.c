/*
 * Truncated core dumps: every fixture, cut at the start and in the middle of its tables, and within its section headers. The
 * result must be a subset of what the complete dump gives, and must have the exception if the SM table is complete.
 */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/dump/coredump.h"

#include "analysis/dump/evidence.h"
#include "analysis/dump/standing.h"

#include "synthetic_dump.h"

#include <dirent.h>

static struct problem problem;

/* What is told of a dump. */
struct told {
    uint8_t *bytes; /* of exactly its size, so that a sanitizer sees a read behind it */
    struct coredump dump;
    struct evidence *evidence;
    struct standing *standing;
};

static cufence_status tell(const uint8_t *bytes, size_t size, struct told *told)
{
    *told = (struct told){.bytes = malloc(size ? size : 1)};
    assert_non_null(told->bytes);
    memcpy(told->bytes, bytes, size);
    cufence_status status = coredump_open_part(told->bytes, size, &told->dump, &problem);
    if (status == CUFENCE_OK) {
        assert_int_equal(evidence_read(&told->dump, &told->evidence, &problem), CUFENCE_OK);
        assert_int_equal(standing_read(&told->dump, &told->standing, &problem), CUFENCE_OK);
    }
    return status;
}

static void forget(struct told *told)
{
    standing_free(told->standing);
    evidence_free(told->evidence);
    coredump_close(&told->dump);
    free(told->bytes);
}

static int is_same_text(const char *left, const char *right)
{
    return left == right || (left && right && strcmp(left, right) == 0);
}

/* ---- less, and nothing else ---- */

static int is_site_of(const struct evidence_site *site, const struct evidence *whole)
{
    for (size_t i = 0; i < whole->site_count; i++) {
        const struct evidence_site *other = &whole->sites[i];
        if (!site->error_pc && site->sm == other->sm && site->exception.number == other->exception.number)
            return 1; /* an SM may have an exception without a PC, which its warps have */
        if (site->sm == other->sm && site->error_pc == other->error_pc && site->exception.number == other->exception.number &&
            is_same_text(site->kernel, other->kernel) && site->kernel_offset == other->kernel_offset &&
            is_same_text(site->file, other->file) && site->line == other->line &&
            is_same_text(site->instruction, other->instruction) && site->is_in_driver == other->is_in_driver &&
            (!site->is_warp_alive || (other->is_warp_alive && site->warp == other->warp)))
            return 1;
    }
    return 0;
}

static int is_place_of(const struct standing_place *place, const struct standing *whole)
{
    for (size_t i = 0; i < whole->place_count; i++) {
        const struct standing_place *other = &whole->places[i];
        if (place->pc == other->pc && place->grid_id == other->grid_id)
            return place->threads <= other->threads && place->warps <= other->warps &&
                   is_same_text(place->at->kernel, other->at->kernel) && is_same_text(place->at->file, other->at->file) &&
                   place->at->line == other->at->line && is_same_text(place->at->text, other->at->text) &&
                   (!place->exception.number || place->exception.number == other->exception.number);
    }
    return 0;
}

static int is_grid_of(const struct standing_grid *grid, const struct standing *whole)
{
    for (size_t i = 0; i < whole->grid_count; i++) {
        const struct standing_grid *other = &whole->grids[i];
        if (grid->row.id == other->row.id)
            return is_same_text(grid->at->kernel, other->at->kernel) &&
                   memcmp(&grid->row, &other->row, sizeof grid->row) == 0 && grid->threads <= other->threads &&
                   (!grid->parameters.size ||
                    (grid->parameters.size == other->parameters.size &&
                     memcmp(grid->parameters.bytes, other->parameters.bytes, grid->parameters.size) == 0));
    }
    return 0;
}

static void check_less(const struct told *part, const struct told *whole)
{
    assert_true(coredump_is_truncated(&part->dump));
    assert_int_equal(part->dump.claimed, whole->dump.image.file.size);
    assert_int_equal(part->evidence->device, whole->evidence->device);
    if (*part->evidence->device_name)
        assert_string_equal(part->evidence->device_name, whole->evidence->device_name);
    for (size_t i = 0; i < part->evidence->site_count; i++)
        assert_true(is_site_of(&part->evidence->sites[i], whole->evidence));
    for (size_t i = 0; i < part->standing->place_count; i++)
        assert_true(is_place_of(&part->standing->places[i], whole->standing));
    for (size_t i = 0; i < part->standing->grid_count; i++)
        assert_true(is_grid_of(&part->standing->grids[i], whole->standing));
    assert_true(part->standing->threads <= whole->standing->threads);
}

/* Where the tables of a type end; 0 if there are none. */
static uint64_t end_of(const struct coredump *dump, enum coredump_section_type type)
{
    uint64_t end = 0;
    Elf64_Shdr section;
    for (uint32_t i = 0; (i = coredump_next(dump, type, i)) != 0;)
        if (image_section(&dump->image, i, &section) && section.sh_size)
            end = section.sh_offset + section.sh_size;
    return end;
}

static void cut(const struct told *whole, uint64_t size)
{
    struct told part;
    uint64_t sms = end_of(&whole->dump, COREDUMP_SMS), grids = end_of(&whole->dump, COREDUMP_GRIDS);
    enum { FIRST_DEVICE_ROW = sizeof(Elf64_Ehdr) + 72 };
    cufence_status status = tell(whole->bytes, size, &part);
    if (size < FIRST_DEVICE_ROW) {
        assert_int_equal(status, CUFENCE_ERROR_CORRUPT);
        assert_non_null(strstr(problem.text, "is cut off"));
    } else {
        assert_int_equal(status, CUFENCE_OK);
        check_less(&part, whole);
        if (whole->evidence->sites[0].exception.number != EXCEPTION_TRAP) /* which only a warp has */
            assert_int_equal(part.evidence->site_count > 0, size >= sms);
        if (grids)
            assert_int_equal(part.standing->grid_count > 0, size >= grids);
    }
    forget(&part);
}

static void cut_everywhere(const struct told *whole)
{
    uint32_t count = whole->dump.image.section_count, step = count / 400 + 1; /* most of a large one are registers */
    uint64_t headers = whole->dump.image.claimed - count * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    for (uint32_t i = 1; image_section(&whole->dump.image, i, &section); i++) {
        int is_of_lane = section.sh_type == COREDUMP_REGISTERS || section.sh_type == COREDUMP_PREDICATES;
        if (!section.sh_size || (is_of_lane && i % (8 * step)))
            continue;
        cut(whole, section.sh_offset);
        cut(whole, section.sh_offset + section.sh_size / 2);
    }
    for (uint32_t i = 0; i < count; i += 1 + i / 16) {
        cut(whole, headers + i * sizeof section);
        cut(whole, headers + i * sizeof section + sizeof section / 2);
    }
    cut(whole, whole->dump.image.claimed - 1);
    for (size_t size = 0; size < 200; size++)
        cut(whole, size);
}

TEST(what_is_left_of_recorded_dumps)
{
    DIR *folder = opendir(CUFENCE_DUMPS);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct told whole;
        /* Code with barriers lies at the end of its image: without it, nobody knows that an access was moved. */
        if (!strstr(entry->d_name, ".core.gz") || !strncmp(entry->d_name, "held_", 5))
            continue;
        struct span dump = fixture_read("%.*s", (int)strlen(entry->d_name) - 3, entry->d_name);
        assert_int_equal(tell(dump.bytes, dump.size, &whole), CUFENCE_OK);
        fixture_free(dump);
        assert_false(coredump_is_truncated(&whole.dump));
        assert_true(whole.evidence->site_count > 0);
        print_message("cutting %s\n", entry->d_name);
        cut_everywhere(&whole);
        forget(&whole);
        count++;
    }
    closedir(folder);
    assert_true(count >= 10);
}

/* Without headers, what looks like the row of a launch counts only if it begins where a kernel does. */
TEST(a_launch_begins_at_a_kernel)
{
    enum { GRID_AT = 50536, ENTRY_AT = GRID_AT + 24, SIZE = 60000 };
    uint8_t *bytes = fixture_bytes(fixture_read("load_128.core"));
    for (int is_moved = 0; is_moved < 2; is_moved++) {
        struct told part;
        bytes[ENTRY_AT] = (uint8_t)(bytes[ENTRY_AT] + is_moved * 0x10);
        assert_int_equal(tell(bytes, SIZE, &part), CUFENCE_OK);
        assert_int_equal(part.standing->grid_count, !is_moved);
        assert_int_equal(part.evidence->site_count, 1);
        forget(&part);
    }
    free(bytes);
}

/* ---- the kinds that no recorded one has ---- */

/* Tables behind the section headers. */
TEST(the_headers_may_come_first)
{
    struct told part;
    make_synthetic(&newest);
    struct span file = dump_file(0xBE);
    size_t size = file.size;
    Elf64_Shdr *warps = &synthetic.builder.sections[synthetic.part[WARPS]];
    uint8_t *larger = calloc(1, size + warps->sh_size);
    assert_non_null(larger);
    memcpy(larger + size, file.bytes + warps->sh_offset, warps->sh_size);
    fixture_free(file);
    warps->sh_offset = size;
    file = dump_file(0xBE);
    memcpy(larger, file.bytes, size);
    fixture_free(file);
    assert_int_equal(tell(larger, size + warps->sh_size, &part), CUFENCE_OK);
    assert_false(coredump_is_truncated(&part.dump));
    assert_int_equal(part.evidence->sites[0].is_warp_alive, 1);
    forget(&part);
    assert_int_equal(tell(larger, size + warps->sh_size - 1, &part), CUFENCE_OK);
    assert_true(coredump_is_truncated(&part.dump));
    assert_int_equal(part.dump.claimed, size + warps->sh_size);
    assert_int_equal(part.standing->threads, 0);
    assert_int_equal(part.evidence->site_count, 1); /* the SM's */
    forget(&part);
    free(larger);
}

#define SM_COUNT 16

/* A dump without its headers, whose device has 16 SMs; the 7th has an exception. */
static size_t make_headless(uint8_t *bytes, const Elf64_Ehdr *header, int sm_tables, int devices)
{
    size_t at = sizeof *header;
    memcpy(bytes, header, sizeof *header);
    for (int i = 0; i < devices; i++, at += 88) {
        const uint32_t fields[][2] = {{24, (uint32_t)i}, {36, SM_COUNT}, {40, 64}, {44, 32}, {48, 255}, {56, 9}, {64, 16}};
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            memcpy(bytes + at + fields[k][0], &fields[k][1], 4);
    }
    at += 12;
    for (int table = 0; table < sm_tables; table++) {
        for (uint32_t i = 0; i < SM_COUNT; i++, at += 48) {
            const uint32_t exception = 14, one = 1;
            const uint64_t pc = 0x7f0000001010;
            memcpy(bytes + at, &i, 4);
            if (i != 7)
                continue;
            memcpy(bytes + at + 8, &exception, 4);
            memcpy(bytes + at + 12, &one, 4);
            memcpy(bytes + at + 16, &pc, 8);
        }
    }
    return at + 20;
}

TEST(what_is_ambiguous_is_left_out)
{
    static const struct {
        int sm_tables, devices, type;
        cufence_status status;
        size_t sites;
    } cases[] = {{1, 1, ET_CORE, CUFENCE_OK, 1},
                 {0, 1, ET_CORE, CUFENCE_OK, 0},
                 {2, 1, ET_CORE, CUFENCE_OK, 0}, /* whose is which? */
                 {1, 2, ET_CORE, CUFENCE_ERROR_CORRUPT, 0},
                 {1, 1, ET_EXEC, CUFENCE_ERROR_CORRUPT, 0}}; /* a cubin is of the same machine */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[4096] = {0};
        struct told part;
        Elf64_Ehdr header = {.e_type = (uint16_t)cases[i].type,
                             .e_machine = COREDUMP_MACHINE,
                             .e_shoff = 1 << 20,
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = 0}; /* 65280 or more: the first header would say */
        memcpy(header.e_ident, "\177ELF\2\1\1\63", 8);
        size_t size = make_headless(bytes, &header, cases[i].sm_tables, cases[i].devices);
        assert_int_equal(tell(bytes, size, &part), cases[i].status);
        if (part.evidence) {
            assert_int_equal(part.dump.image.is_count_lost, 1);
            assert_int_equal(part.dump.are_headers_lost, 1);
            assert_int_equal(part.evidence->site_count, cases[i].sites);
            if (cases[i].sites)
                assert_int_equal(part.evidence->sites[0].sm, 7);
        }
        forget(&part);
    }
}
