/*
 * Tables of a module with one function, made by hand, and the rules that they make. Who includes this has defined `abi`,
 * the processor, and CODE_FACTOR of its tables.
 */
#pragma once

#include "stacks/cfi.h"

#include <dwarf.h>

#include "support/test.h"

enum { CODE = 0x1000, CODE_BYTES = 0x40, TABLES = 0x10000, HEADER_BYTES = 20 };

struct tables {
    uint8_t bytes[512];
    size_t size;
};

static void put(struct tables *tables, uint64_t value, size_t size)
{
    assert_true(tables->size + size <= sizeof tables->bytes);
    memcpy(tables->bytes + tables->size, &value, size);
    tables->size += size;
}

/* Begins a record; end_record() sets its size. */
static size_t begin_record(struct tables *tables)
{
    put(tables, 0, 4);
    return tables->size;
}

static void end_record(struct tables *tables, size_t begin)
{
    uint32_t size = (uint32_t)(tables->size - begin);
    memcpy(tables->bytes + begin - 4, &size, 4);
}

struct code {
    const uint8_t *bytes;
    size_t size;
};
#define CODE(...)                                                                                                              \
    {                                                                                                                          \
        (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                                                 \
    }
#define CODE_OF(...) ((struct code)CODE(__VA_ARGS__))

static void put_code(struct tables *tables, struct code code)
{
    for (size_t i = 0; i < code.size; i++)
        put(tables, code.bytes[i], 1);
}

/* Header with one entry; common entry with `letters` and their data; the function's own entry. Factors CODE_FACTOR and -8. */
static struct tables make_tables(const char *letters, struct code data, struct code common, struct code own)
{
    struct tables tables = {.size = 0};
    put(&tables, 1, 1);
    put(&tables, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
    put(&tables, DW_EH_PE_udata4, 1);
    put(&tables, DW_EH_PE_datarel | DW_EH_PE_sdata4, 1);
    put(&tables, HEADER_BYTES - 4, 4);
    put(&tables, 1, 4);
    put(&tables, (uint64_t)CODE - TABLES, 4);
    put(&tables, 0, 4); /* where the function's entry is, below */

    size_t record = begin_record(&tables), common_at = record - 4;
    put(&tables, 0, 4);
    put(&tables, 1, 1);
    put_code(&tables, (struct code){(const uint8_t *)letters, strlen(letters) + 1});
    put(&tables, CODE_FACTOR, 1);
    put(&tables, 0x78, 1); /* -8 */
    put(&tables, abi->return_column, 1);
    if (letters[0] == 'z')
        put(&tables, data.size, 1);
    put_code(&tables, data);
    put_code(&tables, common);
    end_record(&tables, record);

    record = begin_record(&tables);
    uint32_t own_at = (uint32_t)(record - 4);
    memcpy(tables.bytes + HEADER_BYTES - 4, &own_at, 4);
    put(&tables, record - common_at, 4);
    put(&tables, (uint64_t)CODE - TABLES - tables.size, 4);
    put(&tables, CODE_BYTES, 4);
    if (letters[0] == 'z')
        put(&tables, 0, 1);
    put_code(&tables, own);
    end_record(&tables, record);
    return tables;
}

#define PLAIN "zR", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4)

static struct cfi_rule rule_in(struct cfi_bytes header, struct cfi_bytes tables, uint64_t offset)
{
    const struct cfi_module module = {.abi = abi, .header = header, .segments = {tables}, .segment_count = 1};
    return cfi_rule_at(&module, CODE + offset);
}

static struct cfi_rule rule_of(struct tables tables, uint64_t offset)
{
    return rule_in((struct cfi_bytes){TABLES, tables.bytes, HEADER_BYTES},
                   (struct cfi_bytes){TABLES, tables.bytes, tables.size}, offset);
}

static void assert_rule(struct cfi_rule rule, struct cfi_rule expected)
{
    assert_int_equal(rule.base, expected.base);
    if (expected.base == CFI_NOWHERE)
        return;
    assert_int_equal(rule.cfa_words, expected.cfa_words);
    assert_int_equal(rule.return_words, expected.return_words);
    assert_int_equal(rule.fp, expected.fp);
    if (expected.fp == CFI_FP_AT_CFA || expected.fp == CFI_FP_AT_FP)
        assert_int_equal(rule.fp_words, expected.fp_words);
}

/* A function's code, and the rule that it makes. */
struct made {
    struct code own;
    struct cfi_rule rule;
};
