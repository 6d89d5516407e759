#include "rerun_source.h"

#include "analysis/dump/coredump.h"
#include "analysis/dump/kernel_module.h"
#include "analysis/lines/cubin.h"
#include "analysis/sass/ways.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/launches.h"
#include "base/error.h"
#include "base/reader.h"
#include "base/list.h"
#include "surroundings.h"
#include "driver/driver.h"
#include "saving.h"
#include "launch/launch.h"
#include "rerun/rerun.h"
#include "vmm/arena.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HELD = 256 };

/* The driver's dump takes 0.7 ms a warp (5.6 s of 8,448: H100; 0.7 s of 800: H200, driver 580.159), and that of a second launch
 * again. Of so many warps it would not be done in the time that the report may take, 1.2 s, so few are tried first. */
enum { FULL_WARPS = 512, FULL_MS = 950, FEW_WARPS = 64 };

struct rerun_source {
    struct saving *saving; /* NULL: the memory is not kept */
    struct rerun rerun;
    char limit[96];
    struct rerun_launch launches[RERUN_LAUNCHES];
    const struct fault_launch *recorded[RERUN_LAUNCHES]; /* NULL: known from the dump alone */
    unsigned equal[RERUN_LAUNCHES];                      /* further launches on record with the same arguments */
    size_t launch_count;
    uint8_t *image, *arguments[RERUN_LAUNCHES]; /* these in no order */
    struct slot_export held[MOST_HELD];         /* memory that arguments point to, kept even if the program unmaps it */
    size_t held_count;
    struct copies copies;
    int has_others;     /* other launches ran at the fault */
    int is_only_traced; /* not launched again */
    char withheld[200]; /* why some memory could not be given to the rerun process, "" if all was */
};

static cufence_status fail(struct rerun_source *source, const char *why)
{
    return rerun_result_fail(&source->rerun.result, why);
}

/* ---- which launches ---- */

static int is_same(const struct rerun_launch *a, const struct rerun_launch *b)
{
    return !memcmp(&a->shape, &b->shape, sizeof a->shape) && a->shared_bytes == b->shared_bytes &&
           a->is_cooperative == b->is_cooperative && a->argument_bytes == b->argument_bytes &&
           !memcmp(a->arguments, b->arguments, a->argument_bytes);
}

static void add_launch(struct rerun_source *source, const struct rerun_launch *launch, const struct fault_launch *recorded)
{
    size_t count = source->launch_count, i = 0;
    while (i < count && !is_same(&source->launches[i], launch))
        i++;
    source->equal[i] += i < count;
    if (i < count)
        return;
    source->launches[count] = *launch;
    source->recorded[count] = recorded;
    source->launch_count++;
}

/* The arguments of a recorded launch, all of them; NULL if they are not on record. */
static const uint8_t *arguments_of(struct rerun_source *source, const struct launch_entry *entry)
{
    uint8_t **own = &source->arguments[source->launch_count];
    if (entry->kept_bytes == entry->argument_bytes)
        return entry->bytes;
    if (entry->argument_bytes > RERUN_ARGUMENTS)
        return NULL;
    uint8_t *grown = realloc(*own, entry->argument_bytes);
    if (!grown)
        return NULL;
    *own = grown;
    return launch_read_arguments(entry, grown, entry->argument_bytes) == entry->argument_bytes ? grown : NULL;
}

static void add_recorded(struct rerun_source *source, const struct fault_launch *recorded)
{
    const struct rerun_launch launch = rerun_launch_of(recorded->entry, arguments_of(source, recorded->entry));
    if (launch.arguments)
        add_launch(source, &launch, recorded);
}

/* The launch as the dump has it. What a dump does not say comes from the record, if it is there. */
static void add_dumped(struct rerun_source *source, const struct evidence_stop *stop, const struct launch_match *origin)
{
    const struct launch_entry *entry = origin->launch ? origin->launch->entry : NULL;
    if (entry && entry->graph)
        entry = NULL;
    struct rerun_launch launch = {.shape = entry ? entry->shape : stop->shape, /* cuTile's differ: launch_fits() */
                                  .shared_bytes = entry ? entry->shared_bytes : 0,
                                  .is_cooperative = entry ? (uint32_t)entry->is_cooperative : 0,
                                  .argument_bytes = (uint32_t)stop->parameter_bytes,
                                  .arguments = stop->parameters};
    if (!entry) /* a launch without a cluster may have one of a block each in the dump */
        memset(launch.cluster, 0, sizeof launch.cluster);
    add_launch(source, &launch, entry ? origin->launch : NULL);
}

/* A launch that may have been the one, to be sorted. */
struct possible {
    struct rerun_launch launch;
    const struct fault_launch *recorded;
    unsigned equal;
    int is_suspect;
    size_t number;
};

/* Whether an argument points into our address space, but to no buffer that is live now. */
static int is_suspect(const struct rerun_launch *launch, const struct fault_memory *memory)
{
    for (size_t i = 0; i + 8 <= launch->argument_bytes; i += 8) {
        uint64_t word = load_u64(launch->arguments + i);
        const cufence_buffer *buffer = word_buffer(memory, word, 0);
        if (word >= memory->arena_start && word < memory->arena_end && (!buffer || buffer->freed_ns))
            return 1;
    }
    return 0;
}

static int by_promise(const void *left, const void *right)
{
    const struct possible *a = left, *b = right;
    return b->is_suspect - a->is_suspect ?: LIST_ORDER(a->equal, b->equal) ?: LIST_ORDER(a->number, b->number);
}

/* Best first: those with a pointer to nothing, those whose arguments are the rarest, the newest. */
static void sort_launches(struct rerun_source *source, const struct fault_memory *memory)
{
    struct possible *all = calloc(source->launch_count, sizeof *all);
    for (size_t i = 0; all && i < source->launch_count; i++)
        all[i] = (struct possible){source->launches[i], source->recorded[i], source->equal[i],
                                   is_suspect(&source->launches[i], memory), i};
    if (all)
        qsort(all, source->launch_count, sizeof *all, by_promise);
    for (size_t i = 0; all && i < source->launch_count; i++) {
        source->launches[i] = all[i].launch;
        source->recorded[i] = all[i].recorded;
    }
    free(all);
}

static cufence_status choose_launches(struct rerun_source *source, const struct evidence_stop *stop,
                                      const struct fault_memory *memory, const struct launch_match *origin)
{
    int is_exact = stop->has_grid && !stop->is_grid_borrowed && stop->parameters && stop->parameter_bytes <= RERUN_ARGUMENTS;
    int has_graph = 0;
    if (is_exact)
        add_dumped(source, stop, origin);
    for (size_t i = 0; !is_exact && i < memory->launch_count && source->launch_count < RERUN_LAUNCHES; i++) {
        const struct launch_entry *entry = memory->launches[i].entry;
        has_graph |= entry->graph != 0;
        if (!entry->graph && launch_fits(entry, stop))
            add_recorded(source, &memory->launches[i]);
    }
    if (source->launch_count > 1)
        sort_launches(source, memory);
    if (!source->launch_count)
        return fail(source,
                    has_graph
                        ? "the kernel ran in a CUDA graph, and its arguments are not on record"
                        : "no launch of the kernel with all of its arguments is on record (`cufence run` keeps that record)");
    return CUFENCE_OK;
}

/* ---- memory ---- */

static const struct slot_export *find_held(const struct rerun_source *source, uint64_t address)
{
    for (size_t i = 0; i < source->held_count; i++)
        if (address - source->held[i].base < source->held[i].mapped)
            return &source->held[i];
    return NULL;
}

/* Errors: as arena_export(). Nothing being mapped there is none: the kernel faults there again. */
static cufence_status export(struct rerun_source *source, uint64_t address, struct slot_export *out)
{
    cufence_status status = arena_export(address, out);
    if (status != CUFENCE_OK && status != CUFENCE_ERROR_INVALID_ARGUMENT && !source->withheld[0])
        snprintf(source->withheld, sizeof source->withheld, "memory that the kernel reaches cannot be shared: %s",
                 error_detail());
    return status;
}

/* Keeps the memory at each address in arguments and variables: the program goes on, and may unmap it. */
static void hold_memory(struct rerun_source *source, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + 8 <= size && source->held_count < MOST_HELD; i += 8) {
        uint64_t word = load_u64(bytes + i);
        if (word >= source->rerun.input.bundle.arena_start && word < source->rerun.input.bundle.arena_end &&
            !find_held(source, word) && export(source, word, &source->held[source->held_count]) == CUFENCE_OK)
            source->held_count++;
    }
}

/* The same for pinned host memory. A launch without all of it would fault there, so it is left out. */
static cufence_status hold_pinned(struct rerun_source *source)
{
    struct copies *copies = &source->copies;
    struct rerun_input *input = &source->rerun.input;
    char why[sizeof copies->left_out] = "";
    size_t kept = 0;
    for (size_t i = 0; i < source->launch_count; i++) {
        copies->left_out[0] = '\0';
        copies_take(copies, &source->launches[i]);
        if (copies->left_out[0]) {
            memcpy(why, copies->left_out, sizeof why);
            continue;
        }
        source->launches[kept] = source->launches[i];
        source->recorded[kept++] = source->recorded[i];
    }
    source->launch_count = kept;
    input->bundle.pinned = copies->pieces;
    input->bundle.pinned_count = copies->count;
    if (!kept)
        return fail(source, why);
    for (size_t i = 0; source->saving && i < copies->count; i++)
        saving_keep_pinned(source->saving, &copies->pieces[i], copies->files[i]);
    return CUFENCE_OK;
}

/* Finds the buffer that has the memory. Returns 1 if its bounds are those at the launch. */
static int find_owner(const struct rerun_source *source, uint64_t address, cufence_buffer *owner)
{
    return bounds_find(address, owner) && bounds_are_sure(owner, source->launches, source->recorded, source->launch_count);
}

/* Says which part of the mapping is not slack, if that is sure. */
static void give_bounds(const struct rerun_source *source, struct rerun_message *answer)
{
    cufence_buffer owner;
    if (!find_owner(source, answer->address, &owner) || owner.mapping_start != answer->address ||
        owner.mapping_end - owner.mapping_start != answer->bytes) /* others share the mapping */
        return;
    answer->is_bounded = 1;
    answer->data = owner.address;
    answer->data_bytes = owner.size;
}

static int save_memory(struct rerun_source *source, const struct rerun_message *question, struct rerun_message *answer)
{
    cufence_buffer owner;
    int is_bounded = find_owner(source, question->address, &owner);
    return saving_answer(source->saving, question, owner.id ? &owner : NULL, is_bounded, answer);
}

static int give_memory(struct rerun_source *source, uint64_t address, struct rerun_message *answer)
{
    struct slot_export fresh = {.fd = -1};
    int file = copies_answer(&source->copies, address, answer);
    if (answer->type != MESSAGE_NONE)
        return file;
    const struct slot_export *found = find_held(source, address);
    if (!found && export(source, address, &fresh) == CUFENCE_OK)
        found = &fresh;
    if (found)
        *answer = (struct rerun_message){.type = MESSAGE_GIVE, .address = found->base, .bytes = found->mapped};
    if (found)
        give_bounds(source, answer);
    else if (source->saving)
        saving_miss(source->saving, address);
    return found == &fresh ? fresh.fd : found ? fcntl(found->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static int answer_rerun(void *user, const struct rerun_message *question, struct rerun_message *answer)
{
    struct rerun_source *source = user;
    if (question->type == MESSAGE_NEED)
        return give_memory(source, question->address, answer);
    return source->saving && question->type == MESSAGE_SAVE ? save_memory(source, question, answer) : -1;
}

/* ---- the kernel and the device ---- */

static cufence_status take_image(struct rerun_source *source, const struct coredump *from, const struct evidence_stop *stop,
                                 struct variables_kept *variables)
{
    struct problem problem;
    size_t image_bytes = 0;
    if (image_of_kernel(from, stop->symbol, stop->error_pc, &source->image, &image_bytes, &problem) != CUFENCE_OK)
        return fail(source, problem.text);
    if (source->saving)
        saving_keep_image(source->saving, source->image, image_bytes);
    struct rerun *rerun = &source->rerun;
    rerun->input.image = source->image;
    rerun->input.image_bytes = image_bytes;
    rerun->input.bundle.symbol = stop->symbol;
    variables_give(variables, rerun);
    return CUFENCE_OK;
}

cufence_status rerun_source_device(struct rerun *rerun, int device)
{
    CUdevice handle;
    CUuuid uuid;
    if (device < 0 || !driver->cuDeviceGetUuid || driver->cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
        driver->cuDeviceGetUuid(&uuid, handle) != CUDA_SUCCESS)
        return rerun_result_fail(&rerun->result, "the GPU is not known");
    memcpy(rerun->input.device, uuid.bytes, sizeof rerun->input.device);
    rerun->input.bundle.arena_start = arena_start();
    rerun->input.bundle.arena_end = arena_end();
    return CUFENCE_OK;
}

int rerun_source_is_wanted(const struct options *options)
{
    return options->explain == EXPLAIN_RERUN || (options->explain == EXPLAIN_AUTO && (!driver->is_sim || options->save[0]));
}

static int is_rerun(const struct options *options, const struct diagnosis *diagnosis, const struct evidence_stop *stop)
{
    /* A second launch of a read would only say again what the dump says. */
    int is_explained = stop->access == ACCESS_READ && fault_is_address_sure(diagnosis);
    int is_needed = options->explain == EXPLAIN_RERUN || options->save[0] || !is_explained;
    return is_needed && (stop->exception.class != CLASS_NO_BUFFER || !stop->is_warp_alive);
}

/* Whether it takes the memory to tell what the address is made of: the dump does not. */
static int is_to_be_traced(struct fault *fault)
{
    struct origin_access access;
    if (fault_stop(&fault->diagnosis)->exception.class != CLASS_ADDRESS || !cause_access(&fault->diagnosis, &access))
        return 0;
    cause_in_dump(&fault->opened, &fault->diagnosis, &fault->cause);
    return !fault->diagnosis.cause;
}

uint64_t rerun_source_limit(const struct options *options, const struct evidence *evidence, char name[96])
{
    int is_short = options->explain == EXPLAIN_AUTO && evidence->warps >= FULL_WARPS && options->rerun_ms > FULL_MS;
    snprintf(name, 96, "%swait_ms=%llu/%llu%s", is_short ? "the second that it has where 512 warps run (explain=rerun: " : "",
             (unsigned long long)options->exit_wait, (unsigned long long)options->rerun_ms, is_short ? ")" : "");
    return is_short ? FULL_MS : options->rerun_ms;
}

static struct rerun_source *rerun_source_make(const struct options *options, const struct fault *fault)
{
    struct rerun_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->saving = fault->saving;
    source->has_others = fault->evidence->grids > 1;
    struct rerun *rerun = &source->rerun;
    rerun->input.bundle.launches = source->launches;
    rerun->input.is_saved = fault->saving != NULL;
    rerun->is_verbose = options->say == SAY_VERBOSE;
    rerun->limit_ms = rerun_source_limit(options, fault->evidence, source->limit);
    rerun->limit = source->limit;
    rerun->saving_ms = fault->saving ? saving_limit_ms(options) : 0;
    rerun->begin_ns = fault->dump->end_ns;
    rerun->answer = answer_rerun;
    rerun->user = source;
    rerun->memory = &fault->around->memory;
    return source;
}

/* With how many blocks the launch is tried first; 0: with all. A kernel that reads how many there are would notice. */
static uint64_t first_blocks(const struct rerun_source *source)
{
    const struct rerun_launch *launch = &source->launches[0];
    const struct rerun_input *input = &source->rerun.input;
    struct cubin_kernel kernel;
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2], warps = (threads + 31) / 32;
    double blocks = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (source->launch_count != 1 || source->saving || launch->is_cooperative || launch->cluster[0] || !warps ||
        blocks * (double)warps < FULL_WARPS ||
        !cubin_find_kernel((struct span){input->image, input->image_bytes}, input->bundle.symbol, &kernel) ||
        code_reads_grid(kernel.code, kernel.sm))
        return 0;
    return (FEW_WARPS + warps - 1) / warps;
}

/* Fills in the input. Errors: UNSUPPORTED, also in the result. */
static cufence_status prepare(struct rerun_source *source, const struct fault *fault)
{
    const struct evidence_stop *stop = fault_stop(&fault->diagnosis);
    struct rerun_input *input = &source->rerun.input;
    cufence_status status = rerun_source_device(&source->rerun, fault->device);
    if (!stop->symbol)
        status = fail(source, "the dump does not name the kernel");
    status = status ?: choose_launches(source, stop, &fault->around->memory, &fault->diagnosis.origin);
    status = status ?: take_image(source, &fault->opened, stop, fault->variables);
    if (status != CUFENCE_OK)
        return status;
    rerun_aim(&source->rerun, &fault->diagnosis);
    for (size_t i = 0; i < input->bundle.variable_count; i++)
        hold_memory(source, input->bundle.variables[i].value, input->bundle.variables[i].bytes);
    for (size_t i = 0; i < source->launch_count; i++)
        hold_memory(source, source->launches[i].arguments, source->launches[i].argument_bytes);
    status = hold_pinned(source);
    if (status == CUFENCE_OK && source->launch_count == 1)
        rerun_input_describe(input, &source->launches[0], &fault->around->memory);
    input->bundle.launch_count = source->launch_count;
    input->first_blocks = status == CUFENCE_OK ? first_blocks(source) : 0;
    return status;
}

struct rerun_source *rerun_source_begin(const struct options *options, struct fault *fault)
{
    const struct evidence_stop *stop = fault_stop(&fault->diagnosis);
    if (!stop || !rerun_source_is_wanted(options))
        return NULL;
    int is_launched = is_rerun(options, &fault->diagnosis, stop);
    if (!is_launched && !is_to_be_traced(fault))
        return NULL;
    struct rerun_source *source = rerun_source_make(options, fault);
    if (!source)
        return NULL;
    source->is_only_traced = !is_launched;
    if (prepare(source, fault) == CUFENCE_OK && is_launched)
        rerun_begin(&source->rerun);
    return source;
}

const char *rerun_source_lacks(struct span image, const char *alone, int has_pinned, int has_others)
{
    Elf64_Sym ignored;
    struct cubin_kernel kernel;
    int calls_malloc = !alone || !cubin_find_kernel(image, alone, &kernel) || kernel.calls_addresses;
    if (calls_malloc && cubin_find_named(image, "malloc", NULL, &ignored))
        return "the device heap (the module calls malloc())";
    if (has_pinned)
        return "pinned host memory as the kernel found it";
    return has_others ? "the other launches that ran at the time" : "";
}

struct rerun_result *rerun_source_finish(struct rerun_source *source)
{
    struct rerun_result *result = &source->rerun.result;
    if (source->is_only_traced) {
        rerun_result_clear(result);
        return result;
    }
    rerun_finish(&source->rerun);
    if (source->withheld[0]) /* what it did without that memory means nothing */
        rerun_void(&source->rerun, source->withheld);
    if (result->outcome != RERUN_FAILED) {
        result->launch = source->recorded[source->rerun.number];
        const struct span image = {source->rerun.input.image, source->rerun.input.image_bytes};
        snprintf(result->lacks, sizeof result->lacks, "%s",
                 rerun_source_lacks(image, NULL, copies_have_changed(&source->copies), source->has_others));
    }
    return result;
}

void rerun_source_trace(struct rerun_source *source, const struct diagnosis *diagnosis)
{
    if (!source->withheld[0])
        rerun_trace(&source->rerun, diagnosis);
}

struct bundle rerun_source_bundle(const struct rerun_source *source)
{
    const struct rerun_result *result = &source->rerun.result;
    int is_sure = result->outcome == RERUN_FAULTED || result->outcome == RERUN_WROTE;
    size_t first = is_sure ? source->rerun.number : 0, end = is_sure ? first + 1 : source->launch_count;
    end = end < first + BUNDLE_LAUNCHES ? end : first + BUNDLE_LAUNCHES;
    struct bundle launched = source->rerun.input.bundle;
    launched.launches += first;
    launched.launch_count = end > first ? end - first : 0;
    return launched;
}

const struct dump *rerun_source_dump(const struct rerun_source *source)
{
    return source && source->rerun.evidence ? &source->rerun.second : NULL;
}

void rerun_source_free(struct rerun_source *source)
{
    if (!source)
        return;
    rerun_end(&source->rerun);
    for (size_t i = 0; i < source->held_count; i++)
        close(source->held[i].fd);
    copies_free(&source->copies);
    for (size_t i = 0; i < RERUN_LAUNCHES; i++)
        free(source->arguments[i]);
    free(source->image);
    free(source);
}
