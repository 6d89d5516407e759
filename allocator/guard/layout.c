#include "layout.h"
#include "base/error.h"

#include <inttypes.h>

/* PyTorch's own allocator aligns to 512 bytes (kMinBlockSize in CUDACachingAllocator.cpp), so programs rely on no more than
 * that. */
#define AUTO_ALIGN_MAX UINT64_C(512)

static int is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Returns 0 on overflow. `unit` is a power of two. */
static int round_up(uint64_t value, uint64_t unit, uint64_t *rounded)
{
    if (__builtin_add_overflow(value, unit - 1, rounded))
        return 0;
    *rounded &= ~(unit - 1);
    return 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t layout_auto_align(uint64_t size)
{
    return smaller(size & (~size + 1), AUTO_ALIGN_MAX);
}

uint64_t layout_offset(uint64_t mapped, uint64_t size, uint64_t align, enum layout_side side)
{
    /* `mapped` is a multiple of the alignment, so rounding down is the same as leaving round_up(size, align) at the end. */
    return side == LAYOUT_START ? 0 : (mapped - size) & ~(align - 1);
}

struct layout_slack layout_slack(uint64_t mapped, uint64_t offset, uint64_t size)
{
    return (struct layout_slack){.head = smaller(offset, LAYOUT_WATCHED),
                                 .tail = smaller(mapped - offset - size, LAYOUT_WATCHED)};
}

static cufence_status check(const struct layout_request *request, struct problem *problem)
{
    if (request->size == 0)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT,
                           "a buffer of 0 bytes has no layout; the smallest is 1 byte");
    if (!is_power_of_two(request->granularity))
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "granularity %" PRIu64 " is not a power of two",
                           request->granularity);
    if (request->align && (!is_power_of_two(request->align) || request->align > request->granularity))
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT,
                           "alignment %" PRIu64 " is not a power of two up to the granularity, %" PRIu64, request->align,
                           request->granularity);
    if (request->guard_max < request->guard_min)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "guard_max %" PRIu64 " is smaller than guard_min %" PRIu64,
                           request->guard_max, request->guard_min);
    return CUFENCE_OK;
}

cufence_status layout_compute(const struct layout_request *request, struct layout *layout, struct problem *problem)
{
    cufence_status status = check(request, problem);
    if (status)
        return status;

    struct layout result = {.align = request->align ? request->align
                                                    : smaller(layout_auto_align(request->size), request->granularity)};
    if (!round_up(request->size, request->granularity, &result.mapped))
        goto overflow;
    uint64_t guard = smaller(result.mapped, request->guard_max);
    if (guard < request->guard_min)
        guard = request->guard_min;
    if (!round_up(guard, request->granularity, &result.guard) ||
        __builtin_add_overflow(result.mapped, result.guard, &result.span))
        goto overflow;
    result.pages = result.mapped / request->granularity;
    result.offset = layout_offset(result.mapped, request->size, result.align, request->side);
    *layout = result;
    return CUFENCE_OK;

overflow:
    return problem_set(problem, CUFENCE_ERROR_OVERFLOW,
                       "a buffer of %" PRIu64 " bytes and its guard do not fit into 64 bits of addresses", request->size);
}

cufence_place layout_classify(uint64_t address, uint64_t start, uint64_t size, uint64_t *offset)
{
    if (address < start) {
        *offset = start - address;
        return CUFENCE_PLACE_BEFORE_START;
    }
    if (address - start < size) {
        *offset = address - start;
        return CUFENCE_PLACE_INSIDE;
    }
    *offset = address - start - size;
    return CUFENCE_PLACE_PAST_END;
}
