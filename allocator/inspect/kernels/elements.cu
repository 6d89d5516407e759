/*
 * Looks at the elements of buffers: their figures, and whether there are NaN or infinities. elements.h has the arguments.
 *
 * Memory is read in chunks of 16 bytes, counted from the item's address, which needs no alignment. No element lies in two.
 */
#include "elements.h"

typedef unsigned long long u64;

struct format {
    unsigned width, exponent_bits, mantissa_bits, is_signed, has_infinity;
};

static __device__ format format_of(unsigned packed)
{
    return {packed & 0xff, packed >> 8 & 0xff, packed >> 16 & 0xff, packed >> 24 & FIGURES_SIGNED,
            packed >> 24 & FIGURES_HAS_INFINITY};
}

struct chunk {
    u64 low, high;
};

static __device__ chunk load(u64 address, unsigned bytes)
{
    chunk got = {0, 0};
    if (bytes == 16 && address % 16 == 0) {
        const ulonglong2 words = *(const ulonglong2 *)address;
        return {words.x, words.y};
    }
    for (unsigned i = 0; i < bytes; i++) {
        u64 byte = (u64)((const unsigned char *)address)[i] << 8 * (i % 8);
        got.low |= i < 8 ? byte : 0;
        got.high |= i < 8 ? 0 : byte;
    }
    return got;
}

static __device__ u64 ones(unsigned bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

static __device__ u64 element(const chunk &from, const format &f, unsigned index)
{
    unsigned at = index * f.width;
    return (at < 8 ? from.low : from.high) >> 8 * (at % 8) & ones(8 * f.width);
}

enum kind { FINITE, NOT_A_NUMBER, INFINITE };

static __device__ kind kind_of(u64 bits, const format &f)
{
    u64 exponent = ones(f.exponent_bits);
    if (!f.exponent_bits || (bits >> f.mantissa_bits & exponent) != exponent)
        return FINITE;
    if (!f.has_infinity)
        return (bits & ones(f.mantissa_bits)) == ones(f.mantissa_bits) ? NOT_A_NUMBER : FINITE;
    return bits & ones(f.mantissa_bits) ? NOT_A_NUMBER : INFINITE;
}

/* The fill: no arithmetic makes it in a type of up to 4 bytes, of which the hardware's NaN has a clear sign. */
static __device__ bool is_fresh(const figures_items &items, u64 bits, const format &f)
{
    return items.has_fill && bits == ones(8 * f.width);
}

static __device__ double value_of(u64 bits, const format &f)
{
    if (!f.exponent_bits) {
        unsigned spare = 64 - 8 * f.width;
        return f.is_signed ? (double)((long long)(bits << spare) >> spare) : (double)bits;
    }
    u64 sign = bits >> (8 * f.width - 1) << 63, exponent = bits >> f.mantissa_bits & ones(f.exponent_bits);
    u64 mantissa = bits & ones(f.mantissa_bits);
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    if (exponent)
        return __longlong_as_double(
            (long long)(sign | (exponent + 1023 - (unsigned)bias) << 52 | mantissa << (52 - f.mantissa_bits)));
    double tiny = f.mantissa_bits == 52
                      ? __longlong_as_double((long long)mantissa)
                      : (double)mantissa * __longlong_as_double((long long)(u64)(1024 - bias - (int)f.mantissa_bits) << 52);
    return sign ? -tiny : tiny;
}

/* Ordered as the values are: the sign bit is turned over, and of negative floats all others too. */
static __device__ u64 key_of(u64 bits, const format &f)
{
    u64 sign = 1ull << (8 * f.width - 1);
    if (f.exponent_bits && bits & sign)
        return ~bits & ones(8 * f.width);
    return f.is_signed ? bits ^ sign : bits;
}

static __device__ u64 mixed(u64 word, u64 place)
{
    u64 hash = (word ^ (place + 1) * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ hash >> 32) * 0x94d049bb133111ebull;
    return hash ^ hash >> 29;
}

static __device__ void enter_special(figures_part &part, kind k, u64 index)
{
    if (k == INFINITE) {
        part.infinities++;
        return;
    }
    part.nans++;
    part.first_nan = !part.first_nan || index + 1 < part.first_nan ? index + 1 : part.first_nan;
    part.last_nan = index + 1 > part.last_nan ? index + 1 : part.last_nan;
}

static __device__ void enter(figures_part &part, u64 bits, const format &f, double shift)
{
    u64 key = key_of(bits, f);
    double off = value_of(bits, f) - shift;
    part.low = !part.finite || key < part.low ? key : part.low;
    part.high = !part.finite || key > part.high ? key : part.high;
    part.finite++;
    part.zeros += !(f.exponent_bits ? bits & ones(8 * f.width - 1) : bits);
    part.sum += off;
    part.squares += off * off;
}

static __device__ void add(figures_part &to, const figures_part &from)
{
    if (from.finite) {
        to.low = !to.finite || from.low < to.low ? from.low : to.low;
        to.high = !to.finite || from.high > to.high ? from.high : to.high;
    }
    to.finite += from.finite;
    to.zeros += from.zeros;
    to.nans += from.nans;
    to.infinities += from.infinities;
    to.fresh += from.fresh;
    to.sum += from.sum;
    to.squares += from.squares;
    if (from.first_nan && (!to.first_nan || from.first_nan < to.first_nan))
        to.first_nan = from.first_nan;
    to.last_nan = from.last_nan > to.last_nan ? from.last_nan : to.last_nan;
    to.hash += from.hash;
}

static __device__ const figures_item &item_of(const figures_items &items, unsigned block)
{
    unsigned i = 0;
    while (i + 1 < items.count && block >= items.items[i + 1].first_block)
        i++;
    return items.items[i];
}

/* The chunks of one block: an equal share of the item's. */
struct share {
    u64 first, end;
};

static __device__ share share_of(const figures_item &item, unsigned block)
{
    u64 chunks = (item.bytes + 15) / 16, each = (chunks + item.blocks - 1) / item.blocks;
    u64 first = (block - item.first_block) * each, end = first + each;
    return {first < chunks ? first : chunks, end < chunks ? end : chunks};
}

static __device__ unsigned bytes_of_chunk(const figures_item &item, u64 at)
{
    u64 left = item.bytes - at * 16;
    return left < 16 ? (unsigned)left : 16u;
}

static __device__ void copy_ends(const figures_item &item, const format &f)
{
    figures_head *head = (figures_head *)item.out;
    u64 whole = item.bytes / f.width * f.width, bytes = whole < FIGURES_ENDS ? whole : FIGURES_ENDS;
    for (u64 i = 0; i < bytes; i++) {
        head->first[i] = ((const unsigned char *)item.address)[i];
        head->last[i] = ((const unsigned char *)item.address)[whole - bytes + i];
    }
}

static __device__ double shift_of(const figures_item &item, const format &f)
{
    if (item.bytes < f.width)
        return 0;
    u64 first = element(load(item.address, f.width), f, 0);
    return kind_of(first, f) == FINITE ? value_of(first, f) : 0;
}

extern "C" __global__ void cufence_figures(const figures_items items)
{
    __shared__ figures_part parts[FIGURES_THREADS];
    const figures_item &item = item_of(items, blockIdx.x);
    const format f = format_of(item.format);
    const share mine = share_of(item, blockIdx.x);
    const double shift = shift_of(item, f);
    figures_part part = {};
    for (u64 at = mine.first + threadIdx.x; at < mine.end; at += blockDim.x) {
        unsigned bytes = bytes_of_chunk(item, at);
        const chunk got = load(item.address + at * 16, bytes);
        part.hash += mixed(got.low, 2 * at) + (bytes > 8 ? mixed(got.high, 2 * at + 1) : 0);
        for (unsigned i = 0; i < bytes / f.width; i++) {
            u64 bits = element(got, f, i);
            kind k = kind_of(bits, f);
            if (k == FINITE)
                enter(part, bits, f, shift);
            else if (is_fresh(items, bits, f))
                part.fresh++;
            else
                enter_special(part, k, at * (16 / f.width) + i);
        }
    }
    parts[threadIdx.x] = part;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step)
            add(parts[threadIdx.x], parts[threadIdx.x + step]);
        __syncthreads();
    }
    if (threadIdx.x)
        return;
    ((figures_part *)((figures_head *)item.out + 1))[blockIdx.x - item.first_block] = parts[0];
    if (blockIdx.x == item.first_block)
        copy_ends(item, f);
}

/* Whether one of the chunk's elements may be no finite number. Elements of less than 8 bytes are looked at together. */
static __device__ bool is_suspect(const chunk &got, const format &f)
{
    u64 all = f.width == 1   ? 0x0101010101010101ull
              : f.width == 2 ? 0x0001000100010001ull
              : f.width == 4 ? 0x0000000100000001ull
                             : 1ull;
    u64 exponent = all * (ones(f.exponent_bits) << f.mantissa_bits), lowest = all << f.mantissa_bits;
    /* Where all bits of the exponent are set, adding 1 to it carries into the sign, which was cleared. */
    u64 sign = all << (8 * f.width - 1);
    return (((got.low & exponent) + lowest) | ((got.high & exponent) + lowest)) & sign;
}

extern "C" __global__ void cufence_nans(const figures_items items)
{
    __shared__ u64 nans, infinities, fresh, first_nan, first_infinity, last_nan, last_infinity;
    const figures_item &item = item_of(items, blockIdx.x);
    const format f = format_of(item.format);
    const share mine = share_of(item, blockIdx.x);
    u64 of_thread = 0;
    if (!threadIdx.x) {
        nans = infinities = fresh = last_nan = last_infinity = 0;
        first_nan = first_infinity = ~0ull;
    }
    __syncthreads();
    for (u64 at = mine.first + threadIdx.x; at < mine.end; at += blockDim.x) {
        unsigned bytes = bytes_of_chunk(item, at);
        const chunk got = load(item.address + at * 16, bytes);
        if (!is_suspect(got, f))
            continue;
        for (unsigned i = 0; i < bytes / f.width; i++) {
            u64 bits = element(got, f, i);
            kind k = kind_of(bits, f);
            bool of_fill = k == NOT_A_NUMBER && is_fresh(items, bits, f);
            of_thread += of_fill;
            if (k == FINITE || of_fill)
                continue;
            atomicAdd(k == NOT_A_NUMBER ? &nans : &infinities, 1ull);
            u64 index = at * (16 / f.width) + i + 1;
            atomicMin(k == NOT_A_NUMBER ? &first_nan : &first_infinity, index);
            atomicMax(k == NOT_A_NUMBER ? &last_nan : &last_infinity, index);
        }
    }
    if (of_thread)
        atomicAdd(&fresh, of_thread);
    __syncthreads();
    if (threadIdx.x || !(nans | infinities | fresh))
        return;
    nans_part *part = (nans_part *)item.out + (blockIdx.x - item.first_block);
    part->nans = nans;
    part->infinities = infinities;
    part->fresh = fresh;
    part->first_nan = nans ? first_nan : 0;
    part->first_infinity = infinities ? first_infinity : 0;
    part->last_nan = last_nan;
    part->last_infinity = last_infinity;
}
