#include "lifecycle.h"

#include "base/clock.h"
#include "base/options.h"
#include "base/output.h"
#include "finding/finding.h"
#include "finding/use.h"
#include "heap/heap.h"
#include "heap/unguarded/unguarded.h"
#include "stacks/stack.h"
#include "witness/delivery.h"
#include "witness/tell.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void use_print(int device, const char *when)
{
    struct heap_use *found;
    size_t count = heap_use(device, &found);
    struct use_place *places = calloc(count + 1, sizeof *places);
    for (size_t i = 0; found && places && i < count; i++)
        heap_use_place(&found[i], &places[i]);
    struct unguarded_buffers passed = passed_live(device, 0);
    const struct usage use = {.places = places,
                              .count = count,
                              .now_ns = monotonic_ns(),
                              .unguarded_buffers = passed.count,
                              .unguarded_bytes = passed.bytes,
                              .when = when,
                              .pid = (int)getpid(),
                              .rank = options_rank()};
    char *text = found && places ? use_text(&use) : NULL, *json = text ? use_json(&use) : NULL;
    if (text)
        delivery_print(text, json);
    else
        output_note("the host has no memory for the list of what is allocated");
    free(json);
    free(text);
    free(places);
    free(found);
}

void use_report_leaks(void)
{
    struct heap_use *found;
    size_t count = heap_use(-1, &found);
    for (size_t i = 0; found && i < count; i++) {
        struct leak leak = {.largest = &found[i].largest,
                            .buffers = found[i].buffers,
                            .bytes = found[i].bytes,
                            .frames = {stack_buffer_frames, NULL},
                            .now_ns = monotonic_ns()};
        tell_leak(&leak);
    }
    free(found);
}
