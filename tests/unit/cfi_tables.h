/*
 * Tables of a module with one function, made by hand, and the frame that is stepped from. Who includes this has defined `abi`,
 * the processor, and CODE_FACTOR of its tables.
 */
#ifndef CUFENCE_TESTS_UNIT_CFI_TABLES_H
#define CUFENCE_TESTS_UNIT_CFI_TABLES_H

#include "stacks/cfi.h"

#include <dwarf.h>

#include "support/test.h"

enum { CODE = 0x1000, CODE_BYTES = 0x40, TABLES = 0x10000, HEADER_BYTES = 20, SP = 0x7000, WORDS = 16 };
enum { RETURN_PC = 0x2222, SAVED_FP = 0x3333, SAVED_OTHER = 0x4444 };

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
#define CODE_OF(...) ((struct code){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

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

/* The words are WORDS numbers, the word at SP + 8 n being 0x100 + n but where a test puts something else. */
struct rerun_input {
    struct tables tables;
    uint64_t words[WORDS];
    struct cfi_frame frame;
};

static struct rerun_input rerun_input_of(struct tables tables, uint64_t offset)
{
    struct rerun_input input = {.tables = tables, .frame.known = CFI_BIT(abi->sp) | CFI_BIT(abi->pc) | CFI_BIT(abi->fp)};
    for (uint64_t i = 0; i < WORDS; i++)
        input.words[i] = 0x100 + i;
    input.frame.registers[abi->sp] = SP;
    input.frame.registers[abi->fp] = SP + 32;
    input.frame.registers[abi->pc] = CODE + offset + 1; /* behind a call: the byte before is looked up */
    return input;
}

static uint64_t word_at(const struct rerun_input *input, uint64_t address)
{
    return input->words[(address - SP) / 8];
}

/* A rule that can be kept for a place in the code says what a step from there does. */
static void assert_rule(struct cfi_rule rule, const struct rerun_input *before, const struct rerun_input *after)
{
    uint64_t fp = before->frame.registers[abi->fp], moved = (uint64_t)(int64_t)rule.cfa_words * 8;
    uint64_t cfa = rule.base == CFI_FROM_SP   ? before->frame.registers[abi->sp] + moved
                   : rule.base == CFI_FROM_FP ? fp + moved
                                              : word_at(before, fp + moved);
    assert_int_equal(after->frame.registers[abi->sp], cfa);
    assert_int_equal(after->frame.registers[abi->pc],
                     word_at(before, cfa + (uint64_t)(int64_t)rule.return_words * 8) & abi->address_bits);
    if (rule.fp == CFI_FP_LOST || !(after->frame.known >> abi->fp & 1))
        return;
    uint64_t place = (rule.fp == CFI_FP_AT_CFA ? cfa : fp) + (uint64_t)(int64_t)rule.fp_words * 8;
    assert_int_equal(after->frame.registers[abi->fp], rule.fp == CFI_FP_SAME ? fp : word_at(before, place));
}

static unsigned ruled; /* steps that a rule has told */

static enum cfi_result step(struct rerun_input *input)
{
    const struct cfi_bytes tables = {TABLES, input->tables.bytes, input->tables.size};
    struct cfi_module module = {.abi = abi, .header = tables, .segments = {tables}, .segment_count = 1};
    module.header.size = HEADER_BYTES;
    const struct cfi_bytes stack = {SP, (const uint8_t *)input->words, sizeof input->words};
    struct rerun_input before = *input;
    struct cfi_rule rule = cfi_rule_at(&module, input->frame.registers[abi->pc] - !input->frame.is_interrupted);
    enum cfi_result result = cfi_step(&module, &stack, &input->frame);
    if (result == CFI_STEPPED && rule.base != CFI_NOWHERE) {
        assert_rule(rule, &before, input);
        ruled++;
    }
    return result;
}

static uint64_t value_of(const struct rerun_input *input, int reg)
{
    assert_true(input->frame.known >> reg & 1);
    return input->frame.registers[reg];
}

#endif
