#include "events.h"

#include "base/thread.h"

static size_t group_size(const struct hashing *hashing, size_t first)
{
    return hashing->count - first < HASH_RANGES ? hashing->count - first : HASH_RANGES;
}

static size_t find(const struct hashing *hashing, uint64_t key)
{
    size_t i = 0;
    while (i < hashing->count && hashing->keys[i] != key)
        i++;
    return i;
}

static uint64_t key_of(const struct visit *visit, size_t index)
{
    return visit->copy ? index : visit->reached[index].range.id;
}

static void add_buffers(struct hashing *hashing, const struct visit *visit)
{
    for (size_t i = 0; i < visit->reached_count && hashing->count < HASHING_RANGES; i++) {
        const struct reached *reached = &visit->reached[i];
        if (reached->is_out_of_way || find(hashing, key_of(visit, i)) < hashing->count)
            continue;
        hashing->keys[hashing->count] = key_of(visit, i);
        hashing->ranges[hashing->count++] =
            (struct hash_range){.address = visit->copy ? reached->pointer : reached->range.address,
                                .bytes = visit->copy ? reached->bytes : reached->range.size};
    }
}

const struct hashing *hashing_plan(const struct visit *visit)
{
    static const struct hashing nothing;
    static struct thread_memory memory = {.size = sizeof(struct hashing)}; /* too large for small stacks */
    struct hashing *hashing = thread_memory(&memory);
    if (!hashing)
        return &nothing;
    hashing->count = hashing->sums = 0;
    add_buffers(hashing, visit);
    for (size_t first = 0; first < hashing->count; first += HASH_RANGES) {
        hashing->first_sums[first / HASH_RANGES] = hashing->sums;
        hashing->sums += hash_plan(&hashing->ranges[first], group_size(hashing, first));
    }
    return hashing;
}

void hashing_submit(const struct hashing *hashing, struct visit_part *part, unsigned kernel, uint64_t *sums)
{
    for (size_t kind = 0; kind < HASHING_KINDS; kind++, sums += hashing->sums)
        for (size_t first = 0; first < hashing->count && part->failure == CUDA_SUCCESS; first += HASH_RANGES)
            part->failure =
                hash_launch(part->functions[kernel], part->visit->handle, &hashing->ranges[first], group_size(hashing, first),
                            (CUdeviceptr)(uintptr_t)(sums + hashing->first_sums[first / HASH_RANGES]), kind == 1);
}

int hashing_result(const struct hashing *hashing, const struct visit *visit, size_t index, const uint64_t *sums, int is_folded,
                   uint64_t *hash)
{
    size_t i = find(hashing, key_of(visit, index));
    if (i == hashing->count)
        return 0;
    *hash = hash_result(&hashing->ranges[i], sums + (is_folded ? hashing->sums : 0) + hashing->first_sums[i / HASH_RANGES]);
    return 1;
}
