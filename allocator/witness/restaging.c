#include "restaging.h"

#include "analysis/dump/coredump.h"
#include "analysis/dump/image.h"
#include "analysis/verdict/launches.h"
#include "base/clock.h"
#include "base/error.h"
#include "bounds.h"
#include "hosted.h"
#include "ranges.h"
#include "staging.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HELD = 256 };

struct restaging {
    const struct fault_sources *sources;
    struct saving *saving; /* NULL: the memory is not kept */
    struct staging staging;
    char limit[40];
    struct scene_launch launches[SCENE_LAUNCHES];
    const struct fault_launch *recorded[SCENE_LAUNCHES]; /* NULL: known from the dump alone */
    size_t launch_count;
    uint8_t *image, *arguments[SCENE_LAUNCHES];
    struct slot_export held[MOST_HELD]; /* memory that arguments point to, kept even if the program unmaps it */
    size_t held_count;
    struct hosted hosted;
    char withheld[200]; /* why some memory could not be given to the stage, "" if all was */
};

static cufence_status fail(struct restaging *restaging, const char *why)
{
    return staging_fail(&restaging->staging, why);
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
    size_t count = restaging->launch_count;
    for (size_t i = 0; i < count; i++)
        if (is_same(&restaging->launches[i], launch))
            return;
    restaging->launches[count] = *launch;
    restaging->recorded[count] = recorded;
    restaging->launch_count++;
}

/* The arguments of a recorded launch, all of them; NULL if they are not on record. */
static const uint8_t *arguments_of(struct restaging *restaging, const struct launch_entry *entry)
{
    uint8_t **own = &restaging->arguments[restaging->launch_count];
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
    if (is_exact)
        add_dumped(restaging, site, origin);
    for (size_t i = 0; !is_exact && i < around->launch_count && restaging->launch_count < SCENE_LAUNCHES; i++) {
        const struct launch_entry *entry = around->launches[i].entry;
        has_graph |= entry->graph != 0;
        if (!entry->graph && launch_fits(entry, site))
            add_recorded(restaging, &around->launches[i]);
    }
    if (!restaging->launch_count)
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
        snprintf(restaging->withheld, sizeof restaging->withheld, "memory that the kernel reaches cannot be shared: %s",
                 error_detail());
    return status;
}

/* Keeps the memory at each address in the arguments: the program goes on, and may unmap it. */
static void hold_memory(struct restaging *restaging, const struct scene_launch *launch)
{
    for (size_t i = 0; i + 8 <= launch->argument_bytes && restaging->held_count < MOST_HELD; i += 8) {
        uint64_t word;
        memcpy(&word, launch->arguments + i, sizeof word);
        if (word >= restaging->staging.scene.arena_start && word < restaging->staging.scene.arena_end &&
            !find_held(restaging, word) && export(restaging, word, &restaging->held[restaging->held_count]) == CUFENCE_OK)
            restaging->held_count++;
    }
}

/* The same for pinned host memory. Without all of it, the second launch would fault there, so that there is none. */
static cufence_status hold_hosted(struct restaging *restaging)
{
    struct hosted *hosted = &restaging->hosted;
    struct scene *scene = &restaging->staging.scene;
    for (size_t i = 0; i < restaging->launch_count; i++)
        hosted_take(hosted, restaging->sources, &restaging->launches[i]);
    memcpy(scene->pinned, hosted->pieces, hosted->count * sizeof *hosted->pieces);
    scene->pinned_count = hosted->count;
    if (hosted->left_out[0])
        return fail(restaging, hosted->left_out);
    for (size_t i = 0; restaging->saving && i < hosted->count; i++)
        saving_keep_pinned(restaging->saving, &hosted->pieces[i], hosted->files[i]);
    return CUFENCE_OK;
}

/* Finds the buffer that has the memory. Returns 1 if its bounds are those at the launch. */
static int find_owner(const struct restaging *restaging, uint64_t address, cufence_buffer *owner)
{
    return bounds_find(restaging->sources, address, owner) &&
           bounds_are_sure(owner, restaging->launches, restaging->recorded, restaging->launch_count);
}

/* Says which part of the mapping is not slack, if that is sure. */
static void give_bounds(const struct restaging *restaging, struct stage_message *answer)
{
    cufence_buffer owner;
    if (!find_owner(restaging, answer->address, &owner) || owner.mapping_start != answer->address ||
        owner.mapping_end - owner.mapping_start != answer->bytes) /* others share the mapping */
        return;
    answer->is_bounded = 1;
    answer->data = owner.address;
    answer->data_bytes = owner.size;
}

static int save_memory(struct restaging *restaging, const struct stage_message *question, struct stage_message *answer)
{
    cufence_buffer owner;
    int is_bounded = find_owner(restaging, question->address, &owner);
    return saving_answer(restaging->saving, question, owner.id ? &owner : NULL, is_bounded, answer);
}

static int give_memory(struct restaging *restaging, uint64_t address, struct stage_message *answer)
{
    struct slot_export fresh = {.fd = -1};
    int file = hosted_answer(&restaging->hosted, address, answer);
    if (answer->type != STAGE_NONE)
        return file;
    const struct slot_export *found = find_held(restaging, address);
    if (!found && export(restaging, address, &fresh) == CUFENCE_OK)
        found = &fresh;
    if (found)
        *answer = (struct stage_message){.type = STAGE_GIVE, .address = found->base, .bytes = found->mapped};
    if (found)
        give_bounds(restaging, answer);
    else if (restaging->saving)
        saving_miss(restaging->saving, address);
    return found == &fresh ? fresh.fd : found ? fcntl(found->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static int answer_stage(void *user, const struct stage_message *question, struct stage_message *answer)
{
    struct restaging *restaging = user;
    if (question->type == STAGE_NEED)
        return give_memory(restaging, question->address, answer);
    return restaging->saving && question->type == STAGE_SAVE ? save_memory(restaging, question, answer) : -1;
}

/* ---- the kernel and the device ---- */

static cufence_status take_image(struct restaging *restaging, const void *bytes, size_t size, const struct evidence_site *site)
{
    struct coredump dump;
    struct problem problem;
    size_t image_bytes = 0;
    cufence_status status = coredump_open(bytes, size, &dump, &problem);
    if (status == CUFENCE_OK)
        status = image_of_kernel(&dump, site->symbol, site->error_pc, &restaging->image, &image_bytes, &problem);
    coredump_close(&dump);
    if (status != CUFENCE_OK)
        return fail(restaging, problem.text);
    if (restaging->saving)
        saving_keep_image(restaging->saving, restaging->image, image_bytes);
    restaging->staging.result.has_variables = image_has_variables(restaging->image, image_bytes);
    struct staging *staging = &restaging->staging;
    staging->scene.image = restaging->image;
    staging->scene.image_bytes = image_bytes;
    staging->scene.symbol = site->symbol;
    return CUFENCE_OK;
}

static cufence_status take_device(struct restaging *restaging, int device)
{
    CUdevice handle;
    CUuuid uuid;
    if (device < 0 || !driver->cuDeviceGetUuid || driver->cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
        driver->cuDeviceGetUuid(&uuid, handle) != CUDA_SUCCESS)
        return fail(restaging, "the GPU is not known");
    memcpy(restaging->staging.scene.device, uuid.bytes, sizeof restaging->staging.scene.device);
    restaging->staging.scene.arena_start = restaging->sources->arena_start();
    restaging->staging.scene.arena_end = restaging->sources->arena_end();
    return CUFENCE_OK;
}

static int is_wanted(const struct options *options)
{
    return options->witness == WITNESS_ON || (options->witness == WITNESS_AUTO && (!driver->is_sim || options->save[0]));
}

/* A second launch of a read would only say again what the dump says. */
static int is_explained(const struct diagnosis *diagnosis, const struct evidence_site *site)
{
    return site->access == ACCESS_READ && diagnosis->address_certainty != CERTAIN_NOT && !diagnosis->is_completed;
}

static int is_staged(const struct options *options, const struct diagnosis *diagnosis, const struct evidence_site *site)
{
    int is_needed = options->witness == WITNESS_ON || options->save[0] || !is_explained(diagnosis, site);
    return is_needed && site->exception.class != CLASS_NO_BUFFER;
}

static struct restaging *restaging_make(const struct fault_sources *sources, const struct options *options,
                                        struct saving *saving)
{
    struct restaging *restaging = calloc(1, sizeof *restaging);
    if (!restaging)
        return NULL;
    restaging->sources = sources;
    restaging->saving = saving;
    snprintf(restaging->limit, sizeof restaging->limit, "wait_ms=%llu/%llu", (unsigned long long)options->exit_wait,
             (unsigned long long)options->witness_ms);
    struct staging *staging = &restaging->staging;
    staging->scene.launches = restaging->launches;
    staging->scene.is_saved = saving != NULL;
    staging->is_verbose = options->verbose;
    staging->limit_ms = options->witness_ms;
    staging->limit = restaging->limit;
    staging->saving_ms = saving ? saving_limit_ms(options) : 0;
    staging->begin_ns = monotonic_ns();
    staging->answer = answer_stage;
    staging->user = restaging;
    return restaging;
}

static cufence_status start(struct restaging *restaging)
{
    restaging->staging.scene.launch_count = restaging->launch_count;
    return staging_begin(&restaging->staging);
}

struct restaging *restaging_begin(const struct fault_sources *sources, const struct options *options, const struct dump *dump,
                                  const struct evidence *evidence, const struct surroundings *around, struct saving *saving)
{
    struct diagnosis diagnosis;
    if (!is_wanted(options) || !evidence->site_count)
        return NULL;
    fault_diagnose(evidence, &around->memory, &diagnosis);
    const struct evidence_site *site = fault_site(&diagnosis);
    struct restaging *restaging =
        site && is_staged(options, &diagnosis, site) ? restaging_make(sources, options, saving) : NULL;
    if (!restaging)
        return NULL;
    cufence_status status = take_device(restaging, around->memory.device);
    if (!site->symbol)
        status = fail(restaging, "the dump does not name the kernel");
    if (status == CUFENCE_OK)
        status = choose_launches(restaging, site, around, &diagnosis.origin);
    if (status == CUFENCE_OK)
        status = take_image(restaging, dump->bytes, dump->size, site);
    if (status == CUFENCE_OK)
        staging_aim(&restaging->staging, &diagnosis);
    for (size_t i = 0; status == CUFENCE_OK && i < restaging->launch_count; i++)
        hold_memory(restaging, &restaging->launches[i]);
    if (status == CUFENCE_OK)
        status = hold_hosted(restaging);
    for (size_t i = 0; status == CUFENCE_OK && i < restaging->launch_count; i++)
        describe_arguments(&restaging->staging.scene, &restaging->launches[i], &around->memory);
    if (status == CUFENCE_OK)
        start(restaging);
    return restaging;
}

struct restaged *restaging_finish(struct restaging *restaging)
{
    struct restaged *result = &restaging->staging.result;
    staging_finish(&restaging->staging);
    if (restaging->withheld[0]) /* what it did without that memory means nothing */
        staging_void(&restaging->staging, restaging->withheld);
    if (result->outcome != RESTAGE_FAILED || result->emulated_count)
        result->launch = restaging->recorded[restaging->staging.number];
    return result;
}

void restaging_describe(const struct restaging *restaging, struct bundle *bundle)
{
    const struct scene *scene = &restaging->staging.scene;
    const struct restaged *result = &restaging->staging.result;
    int is_sure = result->outcome == RESTAGE_FAULTED || result->outcome == RESTAGE_WROTE;
    size_t first = is_sure ? restaging->staging.number : 0, end = is_sure ? first + 1 : restaging->launch_count;
    bundle->symbol = scene->symbol;
    bundle->arena_start = scene->arena_start;
    bundle->arena_end = scene->arena_end;
    for (size_t i = first; i < end; i++)
        bundle->launches[bundle->launch_count++] = restaging->launches[i];
}

const struct dump *restaging_dump(const struct restaging *restaging)
{
    return restaging && restaging->staging.evidence ? &restaging->staging.second : NULL;
}

void restaging_free(struct restaging *restaging)
{
    if (!restaging)
        return;
    staging_end(&restaging->staging);
    for (size_t i = 0; i < restaging->held_count; i++)
        close(restaging->held[i].fd);
    hosted_free(&restaging->hosted);
    for (size_t i = 0; i < SCENE_LAUNCHES; i++)
        free(restaging->arguments[i]);
    free(restaging->image);
    free(restaging);
}
