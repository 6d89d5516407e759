#include "fault.h"
#include "kernel.h"
#include "operation.h"

#include <stdatomic.h>

struct lane {
    const struct launch *launch;
    cusim_thread thread;
};

static void run_lane(void *argument)
{
    const struct lane *lane = argument;
    lane->launch->function->kernel.function(&lane->thread, lane->launch->arguments);
}

/* Runs the lanes of a warp one after the other. A lane that faults ends; the others continue. */
static void run_warp(struct fault_site *site, uint32_t first, uint32_t end)
{
    const struct launch *launch = site->launch;
    struct lane lane = {.launch = launch};
    for (unsigned i = 0; i < 3; i++) {
        lane.thread.grid[i] = launch->grid[i];
        lane.thread.block[i] = launch->block[i];
        lane.thread.block_index[i] = site->block[i];
    }
    site->valid = site->faulted = 0;
    for (uint32_t thread = first; thread < end; thread++) {
        uint32_t number = thread - first;
        lane.thread.thread_index[0] = thread % launch->block[0];
        lane.thread.thread_index[1] = thread / launch->block[0] % launch->block[1];
        lane.thread.thread_index[2] = thread / launch->block[0] / launch->block[1];
        for (unsigned i = 0; i < 3; i++)
            site->threads[number][i] = lane.thread.thread_index[i];
        site->valid |= 1u << number;
        if (!fault_catch(run_lane, &lane, &site->faults[number]))
            continue;
        if (!site->faulted)
            site->exception = site->faults[number].exception;
        site->faulted |= 1u << number;
    }
}

/* Returns whether the grid continues. *is_reported: the grid's fault was reported; the driver writes one dump per kernel. */
static int run_block(struct fault_site *site, int *is_reported)
{
    uint32_t threads = site->launch->block[0] * site->launch->block[1] * site->launch->block[2];
    for (site->warp = 0; site->warp * WARP_LANES < threads; site->warp++) {
        uint32_t first = site->warp * WARP_LANES;
        run_warp(site, first, first + WARP_LANES < threads ? first + WARP_LANES : threads);
        if (site->faulted == 0 || *is_reported)
            continue;
        *is_reported = 1;
        if (!fault_report(site))
            return 0;
    }
    return context_error(site->context) == CUDA_SUCCESS;
}

void kernel_run(const struct launch *launch, CUcontext context)
{
    static atomic_ullong next_grid_id = 1;
    struct fault_site site = {.context = context, .launch = launch, .grid_id = atomic_fetch_add(&next_grid_id, 1)};
    int is_reported = 0;
    for (site.block[2] = 0; site.block[2] < launch->grid[2]; site.block[2]++) {
        for (site.block[1] = 0; site.block[1] < launch->grid[1]; site.block[1]++) {
            for (site.block[0] = 0; site.block[0] < launch->grid[0]; site.block[0]++) {
                if (!run_block(&site, &is_reported))
                    return;
            }
        }
    }
}
