#include "restaging.h"

#include "analysis/dump/coredump.h"
#include "analysis/dump/image.h"
#include "analysis/sass/fence.h"
#include "analysis/verdict/launches.h"
#include "arming.h"
#include "base/error.h"
#include "intake.h"
#include "ranges.h"
#include "restage/scene.h"
#include "spawn.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HELD = 256 };

struct restaging {
    const struct fault_sources *sources;
    const struct options *options;
    uint64_t begin_ns;
    struct scene scene;
    struct scene_launch launches[SCENE_LAUNCHES];
    const struct fault_launch *recorded[SCENE_LAUNCHES]; /* NULL: known from the dump alone */
    uint8_t *image, *arguments[SCENE_LAUNCHES];
    struct slot_export held[MOST_HELD]; /* memory that arguments point to, kept even if the program unmaps it */
    size_t held_count;
    char withheld[200]; /* why some memory could not be given to the stage, "" if all was */
    struct dump_fifo fifo;
    struct stage_process process;
    int is_running, fifo_fd;
    struct dump dump; /* of the second fault */
    uint32_t number;  /* of the launch that runs */
    int has_patterns; /* it runs with patterns in the guards */
    int is_done;      /* no launch has faulted */
    struct evidence *evidence;
    struct restaged result;
};

static cufence_status fail(struct restaging *restaging, const char *why)
{
    if (restaging->result.outcome == RESTAGE_FAILED)
        return CUFENCE_ERROR_UNSUPPORTED;
    restaging->result.outcome = RESTAGE_FAILED;
    snprintf(restaging->result.reason, sizeof restaging->result.reason, "%s", why);
    return CUFENCE_ERROR_UNSUPPORTED;
}

static int ms_left(const struct restaging *restaging)
{
    uint64_t passed = (dump_clock() - restaging->begin_ns) / 1000000;
    return passed < restaging->options->witness_ms ? (int)(restaging->options->witness_ms - passed) : 0;
}

/* ---- which launches ---- */

static int is_same(const struct scene_launch *a, const struct scene_launch *b)
{
    return !memcmp(a->grid, b->grid, sizeof a->grid) && !memcmp(a->block, b->block, sizeof a->block) &&
           !memcmp(a->cluster, b->cluster, sizeof a->cluster) && a->shared_bytes == b->shared_bytes &&
           a->is_cooperative == b->is_cooperative && a->argument_bytes == b->argument_bytes &&
           !memcmp(a->arguments, b->arguments, a->argument_bytes);
}

static void add_launch(struct restaging *restaging, const struct scene_launch *launch, const struct fault_launch *recorded)
{
    size_t count = restaging->scene.launch_count;
    for (size_t i = 0; i < count; i++)
        if (is_same(&restaging->launches[i], launch))
            return;
    restaging->launches[count] = *launch;
    restaging->recorded[count] = recorded;
    restaging->scene.launch_count++;
}

/* The arguments of a recorded launch, all of them; NULL if they are not on record. */
static const uint8_t *arguments_of(struct restaging *restaging, const struct launch_entry *entry)
{
    uint8_t **own = &restaging->arguments[restaging->scene.launch_count];
    if (entry->kept_bytes == entry->argument_bytes)
        return entry->bytes;
    if (entry->argument_bytes > SCENE_ARGUMENTS)
        return NULL;
    uint8_t *grown = realloc(*own, entry->argument_bytes);
    if (!grown)
        return NULL;
    *own = grown;
    return restaging->sources->arguments(entry, grown, entry->argument_bytes) == entry->argument_bytes ? grown : NULL;
}

static void add_recorded(struct restaging *restaging, const struct fault_launch *recorded)
{
    const struct launch_entry *entry = recorded->entry;
    struct scene_launch launch = {.shared_bytes = entry->shared_bytes,
                                  .is_cooperative = (uint32_t)entry->is_cooperative,
                                  .argument_bytes = entry->argument_bytes,
                                  .arguments = arguments_of(restaging, entry)};
    memcpy(launch.grid, entry->grid, sizeof launch.grid);
    memcpy(launch.block, entry->block, sizeof launch.block);
    memcpy(launch.cluster, entry->cluster, sizeof launch.cluster);
    if (launch.arguments)
        add_launch(restaging, &launch, recorded);
}

/* The launch as the dump has it. What a dump does not say comes from the record, if it is there. */
static void add_dumped(struct restaging *restaging, const struct evidence_site *site, const struct fault_origin *origin)
{
    const struct launch_entry *entry = origin->launch ? origin->launch->entry : NULL;
    if (entry && entry->graph)
        entry = NULL;
    struct scene_launch launch = {.shared_bytes = entry ? entry->shared_bytes : 0,
                                  .is_cooperative = entry ? (uint32_t)entry->is_cooperative : 0,
                                  .argument_bytes = (uint32_t)site->parameter_bytes,
                                  .arguments = site->parameters};
    memcpy(launch.grid, site->grid, sizeof launch.grid);
    memcpy(launch.block, site->block, sizeof launch.block);
    if (entry) /* a launch without a cluster may have one of a block each in the dump */
        memcpy(launch.cluster, entry->cluster, sizeof launch.cluster);
    add_launch(restaging, &launch, entry ? origin->launch : NULL);
}

static cufence_status choose_launches(struct restaging *restaging, const struct evidence_site *site,
                                      const struct surroundings *around, const struct fault_origin *origin)
{
    int is_exact = site->has_grid && !site->is_grid_borrowed && site->parameters && site->parameter_bytes <= SCENE_ARGUMENTS;
    int has_graph = 0;
    restaging->scene.launches = restaging->launches;
    if (is_exact)
        add_dumped(restaging, site, origin);
    for (size_t i = 0; !is_exact && i < around->launch_count && restaging->scene.launch_count < SCENE_LAUNCHES; i++) {
        const struct launch_entry *entry = around->launches[i].entry;
        has_graph |= entry->graph != 0;
        if (!entry->graph && launch_fits(entry, site))
            add_recorded(restaging, &around->launches[i]);
    }
    if (!restaging->scene.launch_count)
        return fail(restaging,
                    has_graph
                        ? "the kernel ran in a CUDA graph, and its arguments are not on record"
                        : "no launch of the kernel with all of its arguments is on record (`cufence run` keeps that record)");
    return CUFENCE_OK;
}

/* ---- memory ---- */

static const struct slot_export *find_held(const struct restaging *restaging, uint64_t address)
{
    for (size_t i = 0; i < restaging->held_count; i++)
        if (address - restaging->held[i].base < restaging->held[i].mapped)
            return &restaging->held[i];
    return NULL;
}

/* Errors: as arena_export(). Nothing being mapped there is none: the kernel faults there again. */
static cufence_status export(struct restaging *restaging, uint64_t address, struct slot_export *out)
{
    cufence_status status = restaging->sources->export(address, out);
    if (status != CUFENCE_OK && status != CUFENCE_ERROR_INVALID_ARGUMENT && !restaging->withheld[0])
        snprintf(restaging->withheld, sizeof restaging->withheld, "memory that the kernel reaches cannot be given away: %s",
                 error_detail());
    return status;
}

/* Keeps the memory at each address in the arguments: the program goes on, and may unmap it. */
static void hold_memory(struct restaging *restaging, const struct scene_launch *launch)
{
    for (size_t i = 0; i + 8 <= launch->argument_bytes && restaging->held_count < MOST_HELD; i += 8) {
        uint64_t word;
        memcpy(&word, launch->arguments + i, sizeof word);
        if (word >= restaging->scene.arena_start && word < restaging->scene.arena_end && !find_held(restaging, word) &&
            export(restaging, word, &restaging->held[restaging->held_count]) == CUFENCE_OK)
            restaging->held_count++;
    }
}

static void give_memory(struct restaging *restaging, uint64_t address)
{
    struct stage_message answer = {.type = STAGE_NONE};
    struct slot_export fresh = {.fd = -1};
    const struct slot_export *found = find_held(restaging, address);
    if (!found && export(restaging, address, &fresh) == CUFENCE_OK)
        found = &fresh;
    if (found)
        answer = (struct stage_message){.type = STAGE_GIVE, .address = found->base, .bytes = found->mapped};
    stage_send(restaging->process.socket, &answer, found ? found->fd : -1);
    if (fresh.fd >= 0)
        close(fresh.fd);
}

/* ---- the process ---- */

static cufence_status take_image(struct restaging *restaging, const void *bytes, size_t size, const struct evidence_site *site)
{
    struct coredump dump;
    struct problem problem;
    struct fence fence;
    size_t image_bytes = 0;
    cufence_status status = coredump_open(bytes, size, &dump, &problem);
    if (status == CUFENCE_OK)
        status = image_of_kernel(&dump, site->symbol, site->error_pc, &restaging->image, &image_bytes, &problem);
    coredump_close(&dump);
    if (status != CUFENCE_OK)
        return fail(restaging, problem.text);
    /* Without the barriers the second fault still shows what was written. */
    fence_put(&restaging->image, &image_bytes, site->symbol, &fence, &problem);
    restaging->scene.image = restaging->image;
    restaging->scene.image_bytes = image_bytes;
    restaging->scene.symbol = site->symbol;
    return CUFENCE_OK;
}

static cufence_status take_device(struct restaging *restaging, int device)
{
    CUdevice handle;
    CUuuid uuid;
    if (device < 0 || !driver->cuDeviceGetUuid || driver->cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
        driver->cuDeviceGetUuid(&uuid, handle) != CUDA_SUCCESS)
        return fail(restaging, "the GPU is not known");
    memcpy(restaging->scene.device, uuid.bytes, sizeof restaging->scene.device);
    restaging->scene.arena_start = restaging->sources->arena_start();
    restaging->scene.arena_end = restaging->sources->arena_end();
    return CUFENCE_OK;
}

static cufence_status start(struct restaging *restaging)
{
    struct stage_message message = {.type = STAGE_SCENE, .number = (uint32_t)ms_left(restaging)};
    if (fifo_make(&restaging->fifo) != CUFENCE_OK)
        return fail(restaging, error_detail());
    restaging->fifo_fd = dump_open(restaging->fifo.path);
    restaging->scene.dump = restaging->fifo.path;
    int scene = scene_write(&restaging->scene);
    cufence_status status = scene < 0 ? error_set(CUFENCE_ERROR_SYSTEM, "the scene cannot be written")
                                      : stage_start(restaging->options->verbose, &restaging->process);
    if (status == CUFENCE_OK) {
        restaging->is_running = 1;
        stage_send(restaging->process.socket, &message, scene);
    }
    if (scene >= 0)
        close(scene);
    return status == CUFENCE_OK ? status : fail(restaging, error_detail());
}

static void stop(struct restaging *restaging)
{
    if (restaging->is_running)
        stage_end(&restaging->process);
    restaging->is_running = 0;
    if (restaging->fifo_fd >= 0)
        close(restaging->fifo_fd);
    restaging->fifo_fd = -1;
    if (restaging->fifo.folder[0])
        dumps_remove_fifo(&restaging->fifo);
    restaging->fifo.folder[0] = '\0';
}

static int is_wanted(const struct options *options)
{
    return options->witness == WITNESS_ON || (options->witness == WITNESS_AUTO && !driver->is_sim);
}

/* A second launch of a read would only say again what the dump says. */
static int is_explained(const struct diagnosis *diagnosis, const struct evidence_site *site)
{
    return site->access == ACCESS_READ && diagnosis->address_certainty != CERTAIN_NOT && !diagnosis->is_completed;
}

struct restaging *restaging_begin(const struct fault_sources *sources, const struct options *options, const void *dump,
                                  size_t size, const struct evidence *evidence, const struct surroundings *around)
{
    struct diagnosis diagnosis;
    if (!is_wanted(options) || !evidence->site_count)
        return NULL;
    fault_diagnose(evidence, &around->memory, &diagnosis);
    const struct evidence_site *site = fault_site(&diagnosis);
    if (!site || site->exception.class == CLASS_NO_BUFFER ||
        (options->witness == WITNESS_AUTO && is_explained(&diagnosis, site)))
        return NULL;
    struct restaging *restaging = calloc(1, sizeof *restaging);
    if (!restaging)
        return NULL;
    restaging->sources = sources;
    restaging->options = options;
    restaging->begin_ns = dump_clock();
    restaging->fifo_fd = -1;
    cufence_status status = take_device(restaging, around->memory.device);
    if (!site->symbol)
        status = fail(restaging, "the dump does not name the kernel");
    if (status == CUFENCE_OK)
        status = choose_launches(restaging, site, around, &diagnosis.origin);
    if (status == CUFENCE_OK)
        status = take_image(restaging, dump, size, site);
    for (size_t i = 0; status == CUFENCE_OK && i < restaging->scene.launch_count; i++)
        hold_memory(restaging, &restaging->launches[i]);
    for (size_t i = 0; status == CUFENCE_OK && i < restaging->scene.launch_count; i++)
        describe_arguments(&restaging->scene, &restaging->launches[i], &around->memory);
    if (status == CUFENCE_OK)
        start(restaging);
    return restaging;
}

/* ---- what the stage says ---- */

static void take_write(struct restaging *restaging, const struct stage_message *message)
{
    struct restaged *result = &restaging->result;
    result->written_bytes += message->bytes;
    if (result->write_count == sizeof result->writes / sizeof *result->writes)
        return;
    struct restaged_write *write = &result->writes[result->write_count++];
    *write = (struct restaged_write){.address = message->address, .bytes = message->bytes};
    write->value_bytes = message->value_bytes < sizeof write->values ? message->value_bytes : sizeof write->values;
    memcpy(write->values, message->values, write->value_bytes);
}

static void take_figures(struct restaging *restaging, const struct stage_message *message)
{
    struct restaged *result = &restaging->result;
    if (result->figure_count < sizeof result->figures / sizeof *result->figures)
        result->figures[result->figure_count++] = message->figures;
}

/* Handles one message. Returns 0 at the end of the conversation. */
static int converse(struct restaging *restaging)
{
    struct stage_message message;
    int fd;
    if (!stage_receive(restaging->process.socket, &message, &fd))
        return 0;
    if (fd >= 0)
        close(fd);
    switch (message.type) {
    case STAGE_NEED:
        give_memory(restaging, message.address);
        return 1;
    case STAGE_LAUNCHES:
        restaging->number = message.number < restaging->scene.launch_count ? message.number : 0;
        restaging->has_patterns = message.address != 0;
        if (restaging->result.launches_tried <= restaging->number)
            restaging->result.launches_tried = restaging->number + 1;
        return 1;
    case STAGE_WROTE:
        take_write(restaging, &message);
        return 1;
    case STAGE_FIGURES:
        take_figures(restaging, &message);
        return 1;
    case STAGE_NOTE:
        return 1;
    case STAGE_FAILED:
        fail(restaging, message.text);
        return 0;
    default:
        restaging->is_done = message.type == STAGE_DONE;
        return 0;
    }
}

/* Reads what has arrived of the dump. Returns 0 once it is complete. */
static int take_dump(struct restaging *restaging)
{
    enum dump_state state;
    do
        state = dump_take(restaging->fifo_fd, &restaging->dump);
    while (state == DUMP_TAKEN);
    return state != DUMP_OVER || !restaging->dump.received;
}

/* Serves the process until it ends, or until the time is over. */
static void serve(struct restaging *restaging)
{
    int is_talking = 1, is_dumping = 1;
    while (is_talking) {
        struct pollfd wait[] = {{.fd = restaging->process.socket, .events = POLLIN},
                                {.fd = restaging->fifo_fd, .events = POLLIN}};
        int left = ms_left(restaging);
        if (!left) {
            char why[96];
            snprintf(why, sizeof why, "it took longer than witness_ms=%llu",
                     (unsigned long long)restaging->options->witness_ms);
            if (!restaging->result.write_count) /* else this much is known */
                fail(restaging, why);
            break;
        }
        if (poll(wait, is_dumping ? 2 : 1, left < 50 ? left : 50) <= 0)
            continue;
        if (is_dumping && wait[1].revents)
            is_dumping = take_dump(restaging);
        if (wait[0].revents)
            is_talking = converse(restaging);
    }
    if (is_dumping)
        take_dump(restaging);
}

/* Runs the scene once more. Returns 1 if the process could be started. */
static int run(struct restaging *restaging)
{
    serve(restaging);
    stop(restaging);
    if (!restaging->dump.received)
        return 0;
    struct problem problem;
    struct evidence *evidence = NULL;
    if (dump_is_complete(&restaging->dump) &&
        evidence_from_coredump(restaging->dump.bytes, restaging->dump.size, &evidence, &problem) == CUFENCE_OK) {
        evidence_free(restaging->evidence);
        restaging->evidence = evidence;
    }
    dump_forget(&restaging->dump);
    return evidence != NULL;
}

/* It faulted beyond the patterned pages, so its first accesses out of bounds went into them. Launches that one alone, without.
 */
static void run_bare(struct restaging *restaging)
{
    struct scene *scene = &restaging->scene;
    uint32_t number = restaging->number;
    struct restaged before = restaging->result;
    scene->launches = &restaging->launches[number];
    scene->launch_count = 1;
    scene->is_bare = 1;
    scene->range_count = 0;
    if (start(restaging) == CUFENCE_OK)
        run(restaging);
    restaging->result = before; /* its failure takes nothing away */
    restaging->number = number;
}

struct restaged *restaging_finish(struct restaging *restaging)
{
    struct restaged *result = &restaging->result;
    if (restaging->is_running && run(restaging)) {
        if (restaging->has_patterns && ms_left(restaging) > 0)
            run_bare(restaging);
        result->outcome = RESTAGE_FAULTED;
    }
    stop(restaging);
    if (restaging->withheld[0]) { /* what it did without that memory means nothing */
        *result = (struct restaged){0};
        evidence_free(restaging->evidence);
        restaging->evidence = NULL;
        fail(restaging, restaging->withheld);
    }
    if (result->outcome == RESTAGE_NOT_TRIED) {
        if (result->write_count)
            result->outcome = RESTAGE_WROTE;
        else if (restaging->is_done)
            result->outcome = RESTAGE_NO_FAULT;
        else
            fail(restaging, "the process that launches it again has ended early");
    }
    result->evidence = restaging->evidence;
    if (result->outcome != RESTAGE_FAILED)
        result->launch = restaging->recorded[restaging->number];
    result->took_ms = (dump_clock() - restaging->begin_ns) / 1000000;
    return result;
}

void restaging_free(struct restaging *restaging)
{
    if (!restaging)
        return;
    stop(restaging);
    for (size_t i = 0; i < restaging->held_count; i++)
        close(restaging->held[i].fd);
    for (size_t i = 0; i < SCENE_LAUNCHES; i++)
        free(restaging->arguments[i]);
    evidence_free(restaging->evidence);
    dump_forget(&restaging->dump);
    free(restaging->image);
    free(restaging);
}
