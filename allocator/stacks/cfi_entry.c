#include "cfi.h"

#include <dwarf.h>

/* A reader for the bytes from `address` on; its position is the address. Broken if `address` is outside the bytes. */
static struct reader read_from(const struct cfi_bytes *bytes, uint64_t address)
{
    struct reader reader = reader_of((struct span){bytes->bytes, bytes->size}, address - bytes->address);
    reader.position = address;
    return reader;
}

/* Reads a pointer encoded as DW_EH_PE_*. `data`: base of data-relative pointers, 0 if there is none. */
static uint64_t read_pointer(struct reader *reader, unsigned encoding, uint64_t data)
{
    enum { FORMAT = 0x0f, APPLICATION = 0x70, IS_SIGNED = DW_EH_PE_signed };
    static const unsigned char sizes[] = {
        [DW_EH_PE_absptr] = 8, [DW_EH_PE_udata2] = 2, [DW_EH_PE_udata4] = 4, [DW_EH_PE_udata8] = 8};
    unsigned format = encoding & FORMAT, kind = format & ~(unsigned)IS_SIGNED;
    uint64_t base = reader->position;
    if ((encoding & APPLICATION) == DW_EH_PE_datarel)
        base = data ? data : reader_break(reader);
    else if ((encoding & APPLICATION) == DW_EH_PE_absptr)
        base = 0;
    else if ((encoding & APPLICATION) != DW_EH_PE_pcrel)
        return reader_break(reader);
    if (format == DW_EH_PE_uleb128)
        return base + reader_uleb(reader);
    if (format == DW_EH_PE_sleb128)
        return base + (uint64_t)reader_sleb(reader);
    if (format == DW_EH_PE_signed || kind >= sizeof sizes || !sizes[kind])
        return reader_break(reader);
    return base + (format & IS_SIGNED ? (uint64_t)reader_signed(reader, sizes[kind]) : reader_unsigned(reader, sizes[kind]));
}

static struct reader in_module(const struct cfi_module *module, uint64_t address)
{
    for (size_t i = 0; i < module->segment_count; i++) {
        struct reader reader = read_from(&module->segments[i], address);
        if (reader.at)
            return reader;
    }
    return (struct reader){NULL, NULL, 0};
}

/* Returns the address of the frame description entry with the last start at or before `pc`; 0 if there is none. */
static uint64_t search_table(const struct cfi_bytes *header, uint64_t pc)
{
    enum { VERSION = 1, SORTED = DW_EH_PE_datarel | DW_EH_PE_sdata4, ENTRY_BYTES = 8 };
    struct reader reader = read_from(header, header->address);
    uint64_t version = reader_u8(&reader);
    unsigned frame_encoding = reader_u8(&reader), count_encoding = reader_u8(&reader);
    if (version != VERSION || reader_u8(&reader) != SORTED)
        return 0;
    read_pointer(&reader, frame_encoding, header->address);
    uint64_t count = read_pointer(&reader, count_encoding, header->address), first = 0;
    if (count > reader_left(&reader) / ENTRY_BYTES)
        return 0;
    while (count > 0) { /* the last start at or before pc is at index `first` or among the `count` entries from there */
        struct reader middle = reader;
        reader_skip(&middle, (first + count / 2) * ENTRY_BYTES);
        if (header->address + (uint64_t)reader_signed(&middle, 4) > pc) {
            count /= 2;
        } else if (count == 1) {
            return header->address + (uint64_t)reader_signed(&middle, 4);
        } else {
            first += count / 2;
            count -= count / 2;
        }
    }
    return 0;
}

/* Returns the body of the record at `address`, after its identifier, whose address is returned in *id_at. */
static struct reader open_record(const struct cfi_module *module, uint64_t address, uint64_t *id_at, uint64_t *id)
{
    enum { LARGEST = 0xfffffff0 - 1 }; /* larger values mean other formats */
    struct reader reader = in_module(module, address);
    uint64_t size = reader_u32(&reader);
    if (size > LARGEST)
        reader_break(&reader);
    struct reader body = reader_cut(&reader, size);
    *id_at = body.position;
    *id = reader_u32(&body);
    return body;
}

/* On AArch64 return addresses are signed with the B key, or the frame's memory is tagged: neither has data. */
static int is_without_data(const struct cfi_abi *abi, char letter)
{
    return abi == &cfi_aarch64 && (letter == 'B' || letter == 'G');
}

static void read_augmentation(const struct cfi_abi *abi, struct reader *body, const char *letters, struct cfi_entry *entry)
{
    if (!*letters)
        return;
    if (*letters != 'z') { /* the size of the data to skip is then unknown */
        reader_break(body);
        return;
    }
    struct reader data = reader_cut(body, reader_uleb(body));
    entry->has_augmentation = 1;
    while (*++letters) {
        if (*letters == 'R')
            entry->encoding = reader_u8(&data);
        else if (*letters == 'L')
            reader_u8(&data);
        else if (*letters == 'P')
            read_pointer(&data, reader_u8(&data) & ~(unsigned)DW_EH_PE_indirect, 1);
        else if (*letters == 'S')
            entry->is_signal = 1;
        else if (!is_without_data(abi, *letters))
            reader_break(&data);
    }
    if (!data.at)
        reader_break(body);
}

/* Reads the common information entry. If it is invalid, entry->common is a broken reader. */
static void read_common(const struct cfi_module *module, uint64_t address, struct cfi_entry *entry)
{
    uint64_t id_at, id;
    struct reader body = open_record(module, address, &id_at, &id);
    uint64_t version = reader_u8(&body);
    const char *letters = reader_string(&body);
    entry->common = (struct reader){NULL, NULL, 0};
    if (!letters || id != 0 || (version != 1 && version != 3))
        return;
    entry->code_factor = reader_uleb(&body);
    entry->data_factor = reader_sleb(&body);
    entry->return_register = version == 1 ? reader_u8(&body) : reader_uleb(&body);
    read_augmentation(module->abi, &body, letters, entry);
    entry->common = body;
}

int cfi_find_entry(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry)
{
    uint64_t id_at, id, address = search_table(&module->header, pc);
    *entry = (struct cfi_entry){0};
    if (!address)
        return 0;
    struct reader body = open_record(module, address, &id_at, &id);
    if (!body.at || id == 0)
        return 0;
    read_common(module, id_at - id, entry);
    entry->start = read_pointer(&body, entry->encoding, 0);
    uint64_t size = read_pointer(&body, entry->encoding & 0x0f, 0);
    if (entry->has_augmentation)
        reader_cut(&body, reader_uleb(&body));
    entry->own = body;
    return entry->common.at && body.at && pc >= entry->start && pc - entry->start < size;
}
