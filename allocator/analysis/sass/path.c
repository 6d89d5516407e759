#include "path.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

/* What is recorded of each instruction: its number in the code, and: */
#define IS_FORGOTTEN UINT32_C(0x80000000) /* it may not have executed */
#define IS_LOAD UINT32_C(0x40000000)
#define NUMBER (IS_LOAD - 1)

/* ---- the recording ---- */

struct recorder {
    struct emulate_memory memory; /* of the launch */
    struct path *path;
    uint32_t *taken;
    size_t taken_count;
    uint32_t number; /* of the instruction that is executed */
    int has_loaded, has_failed;
};

/* Reads for a load, and records what it got. */
static int read_and_record(void *user, uint64_t address, void *bytes, size_t size)
{
    struct recorder *recorder = user;
    struct path *path = recorder->path;
    if (!recorder->memory.read || !recorder->memory.read(recorder->memory.user, address, bytes, size))
        return 0;
    if (!list_make_room(&path->loads, path->load_count, sizeof *path->loads)) {
        recorder->has_failed = 1;
        return 0;
    }
    struct path_load *load = &path->loads[path->load_count++];
    *load = (struct path_load){.number = recorder->number, .bytes = (uint32_t)size, .address = address};
    memcpy(load->value, bytes, size);
    recorder->has_loaded = 1;
    return 1;
}

static int add_taken(struct recorder *recorder, uint32_t flags)
{
    if (!list_make_room(&recorder->taken, recorder->taken_count, sizeof *recorder->taken))
        return 0;
    recorder->taken[recorder->taken_count++] = recorder->number | flags;
    return 1;
}

/* Executes one instruction and records it, unless it is not executed. */
static enum flow record_step(struct recorder *recorder, struct machine *machine, uint64_t *pc)
{
    struct sass_instruction instruction;
    uint64_t number = (*pc - machine->launch->start) / SASS_INSTRUCTION_BYTES;
    if (!machine_fetch(machine, *pc, &instruction) || number > NUMBER)
        return FLOW_LOST;
    enum truth guard = machine_guard(machine, instruction);
    recorder->number = (uint32_t)number;
    recorder->has_loaded = 0;
    enum flow flow = machine_step(machine, pc);
    if (recorder->has_failed)
        return FLOW_LOST;
    if (guard == TRUTH_FALSE || sass_branches(instruction))
        return flow;
    uint32_t flags = guard == TRUTH_UNKNOWN ? IS_FORGOTTEN : recorder->has_loaded ? IS_LOAD : 0;
    return add_taken(recorder, flags) ? flow : FLOW_LOST;
}

/* Returns 1 at the access. */
static int record(struct recorder *recorder, struct machine *machine, uint64_t access_pc, uint64_t wanted)
{
    uint64_t pc = machine->launch->start;
    for (uint32_t steps = 0; steps < PATH_STEPS; steps++) {
        int is_off = 0;
        if (pc == access_pc && machine_address(machine, recorder->path->access, &is_off, &recorder->path->address) &&
            recorder->path->address == wanted)
            return 1;
        if (record_step(recorder, machine, &pc) != FLOW_ON)
            return 0;
    }
    return 0;
}

/* ---- the instructions that matter ---- */

/* Registers and predicates that are still to be explained. */
struct wanted {
    uint8_t registers[2][256], predicates[2][8];
};

static void want(struct wanted *wanted, const struct machine *machine, int file, unsigned number)
{
    number &= machine->zero[file];
    for (unsigned i = number; i < number + 2 && i < 256 && number != machine->zero[file]; i++)
        wanted->registers[file][i] = 1;
}

/* Whether it writes one of them, which then is explained: more than four in a row are written by none that can be computed. */
static int explains(struct wanted *wanted, const struct machine *machine, struct sass_instruction instruction)
{
    unsigned vector = (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8), uniform = vector & machine->zero[UNIFORM];
    int is_wanted = 0;
    int is_single = sass_opcode(instruction) == 0x035 && machine->launch->sm < 100; /* HFMA2.MMA, not IADD.64 */
    for (unsigned i = vector; i < vector + (is_single ? 1 : 4) && i < SASS_RZ; i++) {
        if (!sass_writes_register(instruction, i, 1))
            continue;
        is_wanted |= wanted->registers[VECTOR][i];
        wanted->registers[VECTOR][i] = 0;
    }
    for (unsigned i = uniform; sass_writes_uniform(instruction) && i < uniform + 4 && i < 256; i++)
        is_wanted |= wanted->registers[UNIFORM][i]; /* it may write fewer: what was there before stays wanted */
    for (unsigned i = 0; i < 7; i++) {
        if (sass_may_write_predicate(instruction, i))
            is_wanted |= wanted->predicates[VECTOR][i];
        if (sass_may_write_uniform_predicate(instruction, i))
            is_wanted |= wanted->predicates[UNIFORM][i];
    }
    return is_wanted;
}

/* What it may read. More than it does read costs only time. */
static void want_operands(struct wanted *wanted, const struct machine *machine, struct sass_instruction instruction)
{
    static const unsigned registers[] = {SASS_A_AT, SASS_B_AT, SASS_C_AT};
    static const unsigned predicates[] = {SASS_PREDICATE_3_AT, SASS_PREDICATE_2_AT, SASS_PREDICATE_AT};
    unsigned form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3);
    for (unsigned i = 0; i < 3; i++) {
        int has_number =
            registers[i] != SASS_B_AT || form < 2 || form > 5; /* not a constant's place, nor the constant itself */
        for (int file = VECTOR; file <= UNIFORM; file++) {
            if (has_number)
                want(wanted, machine, file, (unsigned)sass_bits(instruction, registers[i], 8));
            if (sass_reads_predicate(instruction, predicates[i]))
                wanted->predicates[file][sass_bits(instruction, predicates[i], 3)] = 1;
        }
    }
}

/* Walks back over what was executed. The steps are found from the last on. Returns 0 if out of host memory. */
static int keep_what_matters(struct path *path, const struct recorder *recorder, const struct machine *machine)
{
    struct wanted wanted;
    uint32_t load = (uint32_t)path->load_count;
    memset(&wanted, 0, sizeof wanted);
    want(&wanted, machine, VECTOR, path->access->base);
    if (path->access->uniform >= 0)
        want(&wanted, machine, UNIFORM, (unsigned)path->access->uniform);
    for (size_t i = recorder->taken_count; i-- > 0;) {
        uint32_t taken = recorder->taken[i], number = taken & NUMBER;
        struct sass_instruction instruction = sass_load(path->launch->code.bytes + (size_t)number * SASS_INSTRUCTION_BYTES);
        int is_load = (taken & IS_LOAD) != 0;
        load -= (uint32_t)is_load;
        if (!explains(&wanted, machine, instruction))
            continue;
        if (!is_load) /* what it has loaded is on record */
            want_operands(&wanted, machine, instruction);
        if (!list_make_room(&path->steps, path->step_count, sizeof *path->steps))
            return 0;
        path->steps[path->step_count++] =
            (struct path_step){number, (taken & IS_FORGOTTEN) != 0, is_load ? load : PATH_NO_LOAD};
    }
    for (size_t i = 0; i < path->step_count / 2; i++) {
        struct path_step last = path->steps[path->step_count - 1 - i];
        path->steps[path->step_count - 1 - i] = path->steps[i];
        path->steps[i] = last;
    }
    for (size_t i = 0; i < path->step_count; i++)
        if (path->steps[i].load != PATH_NO_LOAD)
            path->loads[path->steps[i].load].step = (uint32_t)i;
    return 1;
}

/* ---- a step once more ---- */

/* The launch and the thread with the changes that concern them. */
struct again {
    struct emulate_launch launch;
    struct emulate_lane lane;
    uint8_t parameters[4096];
};

static void begin_again(struct again *again, const struct path *path, const struct path_change *changes, size_t count)
{
    again->launch = *path->launch;
    again->lane = *path->lane;
    again->launch.memory = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct path_change *change = &changes[i];
        size_t size = path->launch->parameters.size;
        if (change->input == PATH_BLOCK)
            again->lane.block_index[change->at % 3] = (uint32_t)change->value;
        if (change->input == PATH_THREAD)
            again->lane.thread[change->at % 3] = (uint32_t)change->value;
        if (change->input != PATH_PARAMETER || size > sizeof again->parameters || change->bytes > sizeof change->value ||
            !span_part(path->launch->parameters, change->at, change->bytes).bytes)
            continue;
        if (again->launch.parameters.bytes != again->parameters)
            memcpy(again->parameters, path->launch->parameters.bytes, size);
        again->launch.parameters = (struct span){again->parameters, size};
        memcpy(again->parameters + change->at, &change->value, change->bytes);
    }
}

/* Fills the registers of a load with what it has loaded, or would have. */
static void load_again(struct machine *machine, struct sass_instruction instruction, const struct path *path, uint32_t number,
                       const struct path_change *changes, size_t count)
{
    struct path_load load = path->loads[number];
    for (size_t i = 0; i < count; i++) {
        const struct path_change *change = &changes[i];
        if (change->input == PATH_LOADED && change->at == number && change->bytes <= sizeof change->value &&
            change->from <= sizeof load.value - change->bytes)
            memcpy(load.value + change->from, &change->value, change->bytes);
    }
    machine_take_loaded(machine, instruction, load.bytes, load.value);
}

/* Executes a step of the path, with the changes that concern it. */
static void run_again(struct machine *machine, const struct path *path, uint32_t index, const struct path_change *changes,
                      size_t count)
{
    const struct path_step *step = &path->steps[index];
    struct sass_instruction instruction = path_instruction(path, index);
    int file = sass_writes_uniform(instruction) ? UNIFORM : VECTOR;
    if (step->load != PATH_NO_LOAD)
        load_again(machine, instruction, path, step->load, changes, count);
    else if (step->is_forgotten)
        machine_forget(machine, instruction);
    else
        machine_run(machine, instruction);
    for (size_t i = 0; i < count; i++)
        if (changes[i].input == PATH_RESULT && changes[i].at == index)
            machine_set(machine, file, (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8) & machine->zero[file],
                        known(changes[i].value));
}

/* Nothing is lost without them but time. */
static void set_checkpoints(struct path *path)
{
    struct again again;
    struct machine machine;
    size_t stride = path->step_count / PATH_CHECKPOINTS + 1;
    path->checkpoints = malloc((path->step_count / stride + 1) * sizeof *path->checkpoints);
    if (!path->checkpoints)
        return;
    path->stride = stride;
    begin_again(&again, path, NULL, 0);
    machine_begin(&machine, &again.launch, &again.lane);
    for (size_t i = 0; i < path->step_count; i++) {
        if (i % stride == 0)
            path->checkpoints[i / stride] = machine;
        run_again(&machine, path, (uint32_t)i, NULL, 0);
    }
}

/* ---- all of it once more ---- */

/* The first step that a change concerns, if that is known; else 0. */
static size_t first_concerned(const struct path *path, const struct path_change *changes, size_t count)
{
    size_t first = count && path->step_count ? path->step_count - 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const struct path_change *change = &changes[i];
        size_t own = change->input == PATH_LOADED   ? path->loads[change->at].step
                     : change->input == PATH_RESULT ? change->at
                                                    : 0;
        first = own < first ? own : first;
    }
    return first;
}

int path_address(struct path *path, const struct path_change *changes, size_t count, uint64_t *address)
{
    struct again again;
    struct machine machine;
    int is_off = 0;
    size_t number = path->stride ? first_concerned(path, changes, count) / path->stride : 0, first = number * path->stride;
    if (path->work < path->step_count - first)
        return 0;
    path->work -= (uint32_t)(path->step_count - first);
    begin_again(&again, path, changes, count);
    machine_begin(&machine, &again.launch, &again.lane);
    if (first) {
        machine = path->checkpoints[number];
        machine.launch = &again.launch;
        machine.lane = &again.lane;
    }
    for (size_t i = first; i < path->step_count; i++)
        run_again(&machine, path, (uint32_t)i, changes, count);
    machine.predicates[VECTOR][path->access->predicate & 7] = path->access->is_negated ? TRUTH_FALSE : TRUTH_TRUE;
    if (path->access->has_source)
        machine.predicates[VECTOR][path->access->source & 7] = path->access->is_source_negated ? TRUTH_FALSE : TRUTH_TRUE;
    machine.predicates[VECTOR][7] = TRUTH_TRUE;
    return machine_address(&machine, path->access, &is_off, address);
}

int path_follow(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                const struct sass_access *access, uint64_t address, struct path *path)
{
    struct machine machine;
    struct recorder recorder = {.path = path};
    const struct emulate_memory memory = {read_and_record, &recorder};
    struct emulate_launch recorded = *launch;
    uint64_t again;
    *path = (struct path){.launch = launch, .lane = lane, .access = access, .work = PATH_WORK};
    if (launch->memory)
        recorder.memory = *launch->memory;
    recorded.memory = &memory;
    machine_begin(&machine, &recorded, lane);
    int is_there = record(&recorder, &machine, access_pc, address) && keep_what_matters(path, &recorder, &machine);
    free(recorder.taken);
    if (!is_there)
        return 0;
    set_checkpoints(path);
    return path_address(path, NULL, 0, &again) && again == path->address;
}

void path_free(struct path *path)
{
    free(path->steps);
    free(path->loads);
    free(path->checkpoints);
    *path = (struct path){0};
}

void path_each(struct path *path,
               void (*visit)(void *user, uint32_t step, const struct machine *machine, struct sass_instruction instruction),
               void *user)
{
    struct again again;
    struct machine machine;
    begin_again(&again, path, NULL, 0);
    machine_begin(&machine, &again.launch, &again.lane);
    for (uint32_t i = 0; i < path->step_count; i++) {
        visit(user, i, &machine, path_instruction(path, i));
        run_again(&machine, path, i, NULL, 0);
    }
}
