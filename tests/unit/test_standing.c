/* Where the threads of a core dump were, and how `cufence explain` handles files and folders. test_commands.c has what it
 * tells of recorded dumps. */
#define TEST_OWN_MAIN
#include "support/folder.h"
#include "support/program.h"

#include "support/fixture.h"
#include "support/golden.h"

#include "analysis/dump/standing.h"
#include "finding/finding.h"
#include "finding/report.h"

#include "synthetic_dump.h"

static struct problem problem;

/* ---- places ---- */

static struct span of_dump;
static struct coredump dump;
static struct standing *standing;

/* Of the one before nothing is left. */
static void stand(struct span file)
{
    fixture_free(of_dump);
    if (standing)
        coredump_close(&dump);
    standing_free(standing);
    standing = NULL;
    of_dump = file;
    assert_int_equal(coredump_open(of_dump.bytes, of_dump.size, &dump, &problem), CUFENCE_OK);
    assert_int_equal(standing_read(&dump, &standing, &problem), CUFENCE_OK);
}

/* As text and as JSON. */
static void check_standing(const char *name)
{
    stand(dump_file(0xBE));
    json_t *json = standing_json(standing, NULL, 8);
    char *text = standing_text(standing, NULL, 8), *facts = json_dumps(json, JSON_COMPACT), *both = NULL;
    assert_true(asprintf(&both, "%s%s\n", text, facts) > 0);
    golden_check(GOLDEN "dumps.expect", name, both);
    free(text);
    free(facts);
    free(both);
    json_decref(json);
}

/* As the dump of a program that hangs: both lanes wait at +0x40, or one of them is further on. */
TEST(threads_are_grouped_by_place)
{
    for (int is_split = 0; is_split < 2; is_split++) {
        make_synthetic(&newest);
        put32(LANES, newest.lane + 32, 0);
        put32(WARPS, 24, 0);
        put32(SMS, newest.sm + 8, 0);
        if (is_split)
            put64(LANES, newest.lane, KERNEL_START + 0x50);
        check_standing(is_split ? "standing_at_two_places" : "standing_at_one_place");
    }
}

TEST(those_with_an_exception_come_first)
{
    make_synthetic(&oldest);
    check_standing("standing_with_an_exception");
}

/* A second device with the same launch id, at the same places, of a grid that it does not have. */
TEST(devices_are_told_apart)
{
    static const int tables[] = {SMS, CTAS, WARPS, LANES};
    struct dump_builder *builder = &synthetic.builder;
    make_synthetic(&newest);
    uint32_t parent = builder_add(builder, 0x80000009, newest.device, newest.device, 0, 0);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const Elf64_Shdr from = builder->sections[synthetic.part[tables[i]]];
        uint32_t copy = builder_add(builder, from.sh_type, from.sh_entsize, from.sh_size, parent, from.sh_info);
        memcpy(bytes_of_section(copy), bytes_of_section(synthetic.part[tables[i]]), from.sh_size);
        parent = copy;
    }
    stand(dump_file(0xBE));
    assert_int_equal(standing->threads, 4);
    assert_int_equal(standing->grids[0].threads, 2);
    assert_int_not_equal(standing->places[0].gpu, -1);
    for (size_t i = 1; i < standing->place_count; i++)
        assert_true(standing->places[i].gpu != standing->places[i - 1].gpu ||
                    standing->places[i].pc != standing->places[i - 1].pc);
    for (size_t i = 0; i < standing->place_count; i++)
        assert_true(standing->places[i].threads < 3 && !standing->places[i].at->symbol == (standing->places[i].gpu == 0));
}

/* What was recorded on an H200 of tests/gpu/programs/stuck.cu, built in /src. */
TEST(what_threads_wait_for)
{
    static const struct {
        const char *name, *kernel;
        enum wait_kind kind;
        int line; /* of what is waited for */
        size_t threads, absent;
        int is_stuck;
    } cases[] = {
        {"branch", "barrier_in_branch", WAIT_BARRIER, 26, 128, 128, 1},
        {"branch", "barrier_in_branch", WAIT_POLL, 31, 128, 0, 1},
        {"grid", "wait_for_last_block", WAIT_POLL, 48, 132, 0, 1},
        {"grid", "wait_for_last_block", WAIT_BARRIER, 50, 4224, 4224, 1},
        {"hostflag", "wait_for_host", WAIT_POLL, 58, 1, 0, 1},
        {"hostflag", "wait_for_host", WAIT_WARP, 60, 31, 0, 1},
        {"streams", "left_waits", WAIT_POLL, 67, 1, 0, 1},
        {"coop", "all_blocks_meet", WAIT_POLL, 96, 7, 0, 1},
        {"coop-slow", "all_blocks_meet", WAIT_POLL, 96, 7, 0, 0},
        {"coop-slow", "all_blocks_meet", WAIT_NOT, 13, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct coredump recorded;
        struct standing *found;
        struct span file = fixture_read("hang/%s.core", cases[i].name);
        assert_int_equal(coredump_open(file.bytes, file.size, &recorded, &problem), CUFENCE_OK);
        assert_int_equal(standing_read(&recorded, &found, &problem), CUFENCE_OK);
        const struct standing_place *place = found->places;
        while (place->wait.kind != cases[i].kind || place->threads != cases[i].threads)
            assert_true(++place < found->places + found->place_count);
        const struct location *at = place->wait.at ? place->wait.at : place->at;
        assert_string_equal(at->file, "/src/stuck.cu");
        assert_int_equal(at->line, cases[i].line);
        assert_true(!strncmp(at->kernel, cases[i].kernel, strlen(cases[i].kernel)));
        assert_int_equal(place->wait.absent, cases[i].absent);
        assert_int_equal(place->wait.kind == WAIT_POLL && at->has_access, place->wait.address != 0);
        assert_int_equal(found->is_stuck, cases[i].is_stuck);
        standing_free(found);
        coredump_close(&recorded);
        fixture_free(file);
    }
}

/* Reads a recorded dump. */
static void stand_as(const char *name)
{
    stand(fixture_read("hang/%s.core", name));
}

static void leave_dump(void)
{
    standing_free(standing);
    standing = NULL;
    coredump_close(&dump);
    fixture_free(of_dump);
    of_dump = (struct span){0};
}

static const struct standing_place *find_wait(enum wait_kind kind)
{
    for (size_t i = 0; i < standing->place_count; i++)
        if (standing->places[i].wait.kind == kind)
            return &standing->places[i];
    return NULL;
}

/* Moves the threads that are at `from` to `to` and, with `spread`, each 32 of them on by one of so many instructions. */
static void move(uint64_t from, uint64_t to, unsigned spread)
{
    unsigned moved = 0;
    for (uint8_t *at = fixture_bytes(of_dump), *end = at + of_dump.size - 8; at < end; at++) {
        if (load_u64(at) != from)
            continue;
        uint64_t pc = to + 16 * (spread ? moved++ / 32 % spread : 0);
        memcpy(at, &pc, sizeof pc);
    }
    standing_free(standing);
    assert_int_equal(standing_read(&dump, &standing, &problem), CUFENCE_OK);
}

TEST(who_waits_for_nobody_does_not_wait)
{
    stand_as("branch");
    assert_int_equal(find_wait(WAIT_BARRIER)->wait.absent, 128);
    for (const uint64_t to = find_wait(WAIT_BARRIER)->pc; find_wait(WAIT_POLL);)
        move(find_wait(WAIT_POLL)->pc, to, 0);
    assert_int_equal(standing->places[0].threads, 256);
    assert_int_equal(standing->waiting, 0); /* the barrier has opened */
    assert_false(standing->is_stuck);
    leave_dump();

    stand_as("hostflag");
    assert_true(standing->is_stuck);
    move(find_wait(WAIT_POLL)->pc, find_wait(WAIT_WARP)->pc, 0);
    assert_null(find_wait(WAIT_WARP));
    assert_int_equal(standing->waiting, 96); /* at a barrier */
    assert_false(standing->is_stuck);
    leave_dump();
}

/* Another instruction of the kernel at which threads wait for all of the block. */
static uint64_t other_barrier(const struct standing_place *place)
{
    const struct location *at = place->grid->at;
    for (uint64_t offset = 0; offset < at->kernel_code.size; offset += 16) {
        const struct wait wait = wait_find(at->kernel_code, offset, 90);
        if (wait.kind == WAIT_BARRIER && wait.at == offset && at->kernel_start + offset != place->wait.pc)
            return at->kernel_start + offset;
    }
    fail_msg("there is none");
    return 0;
}

/* A barrier that stands in both branches is one. */
TEST(a_barrier_of_two_places_opens)
{
    stand_as("branch");
    for (const uint64_t to = other_barrier(find_wait(WAIT_BARRIER)); find_wait(WAIT_POLL);)
        move(find_wait(WAIT_POLL)->pc, to, 0);
    assert_int_equal(standing->waiting, 0);
    leave_dump();
}

/* The pointer is loaded anew in front of the load that is polled, and may be something else before that. */
TEST(an_address_that_is_computed_anew_is_not_known)
{
    stand_as("grid");
    const struct location *load = find_wait(WAIT_POLL)->wait.at;
    const uint64_t to = load->pc - 16, from = find_wait(WAIT_POLL)->pc;
    uint8_t *branch = (uint8_t *)(uintptr_t)load->kernel_code.bytes + 0xf0;
    assert_int_equal(branch[2], 0xf0); /* 64 bytes back, by 4 */
    branch[2] = 0xec;
    move(from, to, 0);
    assert_int_equal(find_wait(WAIT_POLL)->pc, to);
    assert_int_equal(find_wait(WAIT_POLL)->wait.address, 0);
    leave_dump();
}

/* The four smallest of 71 places. */
TEST(those_that_poll_are_located_first)
{
    stand_as("grid");
    const struct standing_place *polls = find_wait(WAIT_POLL), *barrier = find_wait(WAIT_BARRIER);
    const uint64_t load = polls->wait.at->pc, pc = barrier->pc;
    move(polls->pc, load, 4);
    move(pc, pc + 32, 66);
    polls = find_wait(WAIT_POLL);
    assert_non_null(polls);
    assert_true(standing->place_count > LOCATE_LIMIT);
    assert_int_equal(polls->threads, 132);
    assert_int_equal(polls->wait.at->line, 48);
    leave_dump();
}

/* ---- what else was launched ---- */

/* What is said of a launch of left_waits with others on record, by their thread, number in it, time, stream and capture. */
static void check_behind(const struct launch_entry *others, size_t count, const char *says)
{
    static const struct launch_function of_kernel = {.name = "_Z10left_waitsPViS0_Pi"};
    struct launch_entry recent[8];
    struct fault_launch own = {.entry = &recent[0]};
    struct fault_memory memory = {.launches = &own, .launch_count = 1, .recent = recent, .recent_count = count + 1};
    struct stuck_fact stuck = {.standing = standing, .memory = &memory};
    struct evidence *evidence;
    struct finding finding;
    memcpy(recent + 1, others, count * sizeof *others);
    recent[0] = (struct launch_entry){
        .tid = 1, .sequence = 7, .time_ns = 7000, .stream = 1, .function = &of_kernel, .grid = {1, 1, 1}, .block = {64, 1, 1}};
    for (size_t i = 1; i <= count; i++) { /* they are given the flag, too */
        const uint64_t flag = standing->places[0].wait.address;
        memcpy(recent[i].bytes, &flag, recent[i].kept_bytes = sizeof flag);
    }
    assert_int_equal(evidence_read(&dump, &evidence, &problem), CUFENCE_OK);
    stuck_evidence(&stuck, evidence);
    finding_of_stuck(&finding, &stuck, &(struct finding_source){.pid = 1});
    assert_ptr_equal(finding.launch.launch, &own);
    assert_string_equal(finding.notes.list[0].text, says);
    finding_free(&finding);
    evidence_free(evidence);
}

#define MAY_WRITE "may write it: other threads of the kernel, right_waits, which is under way"

TEST(only_newer_launches_are_behind)
{
    enum { OWN = 1, OTHER = 2 };
    const struct launch_entry behind = {.tid = OWN, .sequence = 8, .time_ns = 7000, .stream = 1},
                              older_of_other = {.tid = OTHER, .sequence = 90, .time_ns = 5000, .stream = 1},
                              newer_of_other = {.tid = OTHER, .sequence = 2, .time_ns = 9000, .stream = 1},
                              captured = {.tid = OWN, .sequence = 9, .time_ns = 9000, .stream = 1, .node = 1},
                              apart = {.tid = OWN, .sequence = 10, .time_ns = 9000, .stream = 2};
    stand_as("streams");
    check_behind(&older_of_other, 1, MAY_WRITE);
    check_behind(&captured, 1, MAY_WRITE);
    check_behind((struct launch_entry[]){newer_of_other, behind, captured, older_of_other, apart}, 5,
                 MAY_WRITE ", newer launches that are given it: 2 behind the kernel, 1 on other streams, which may have ended; "
                           "2 launches wait behind the kernel on its stream");
    leave_dump();
}

/* ---- loops and barriers ---- */

TEST(a_loop_that_gets_something_done_does_not_only_wait)
{
    static const struct {
        const char *kernel; /* of kernels.sass */
        uint64_t pc, load;
        int is_timed;
    } cases[] = {
        {"polls", 0x40, 0x30, 0},      {"polls_n_times", 0xb0, 0, 0},     {"takes_lock", 0x100, 0xe0, 0},
        {"sleeps", 0xa0, 0xb0, 0},     {"fences", 0xa0, 0xe0, 0},         {"arrives", 0x1d0, 0x290, 0},
        {"arrives", 0x280, 0x290, 0},  {"looks_at_two", 0x80, 0x100, 0},  {"looks_at_two", 0xd0, 0x100, 0},
        {"adds_zero", 0x80, 0x70, 0},  {"looks_at_clock", 0x50, 0x40, 1}, {"exchanges", 0x70, 0x60, 0},
        {"searches", 0xe0, 0, 0},      {"follows", 0xc0, 0, 0},           {"updates", 0x70, 0, 0},
        {"takes_tickets", 0xc0, 0, 0}, {"computes", 0x110, 0, 0},         {"sums", 0xc0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct span code = fixture_code(cases[i].kernel);
        const struct wait wait = wait_find(code, cases[i].pc, 90);
        if (wait.kind != (cases[i].load ? WAIT_POLL : WAIT_NOT) || wait.at != cases[i].load ||
            wait.is_timed != cases[i].is_timed)
            fail_msg("%s: %d at 0x%lx", cases[i].kernel, wait.kind, (unsigned long)wait.at);
        fixture_free(code);
    }
}

/* Other special registers than clocks are no time. */
TEST(only_a_clock_is_a_time)
{
    enum { AT = 0x50, SPECIAL = 9, CLOCK = 0x50, CLUSTER_BLOCK = 0x88, LESSER_LANES = 0x39, COUNTER = 0x64 };
    struct span code = fixture_code("looks_at_clock");
    uint8_t *special = fixture_bytes(code) + AT + SPECIAL;
    assert_int_equal(*special, CLOCK);
    assert_true(wait_find(code, AT, 90).is_timed);
    *special = CLUSTER_BLOCK;
    assert_true(wait_find(code, AT, 90).kind == WAIT_POLL && !wait_find(code, AT, 90).is_timed);
    *special = LESSER_LANES;
    assert_true(wait_find(code, AT, 90).kind == WAIT_POLL && !wait_find(code, AT, 90).is_timed);
    *special = COUNTER; /* not known to stay the same */
    assert_int_equal(wait_find(code, AT, 90).kind, WAIT_NOT);
    fixture_free(code);
}

TEST(which_barriers_wait_and_for_whom)
{
    static const struct {
        const char *text;
        uint64_t low, high;
        enum wait_kind kind;
        unsigned barrier;
    } cases[] = {
        {"BAR.SYNC.DEFER_BLOCKING 0x0", 0x0000000000007b1d, 0x000fec0000010000, WAIT_BARRIER, 1},
        {"BAR.SYNC.DEFER_BLOCKING 0x1, 0x40", 0x0041000000007b1d, 0x000fe20000010000, WAIT_BARRIER, 0},
        {"BAR.ARV 0x1, 0x40", 0x0041000000007b1d, 0x000fec0000002000, WAIT_NOT, 0},
        {"BAR.RED.OR.DEFER_BLOCKING 0x0, P0", 0x0000000000007b1d, 0x000fec0000014800, WAIT_BARRIER, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sass_instruction barrier = {cases[i].low, cases[i].high};
        const struct wait wait = wait_find((struct span){(const uint8_t *)&barrier, sizeof barrier}, 0, 90);
        if (wait.kind != cases[i].kind || wait.barrier != cases[i].barrier)
            fail_msg("%s", cases[i].text);
    }
}

/* ---- the command ---- */

/* The arguments up to the first that is NULL. */
#define EXPLAIN(...) run_with(CUFENCE_CLI, (const char *const[]){"explain", __VA_ARGS__, NULL})

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("missing: %s\nin:\n%s", part, text);
}

/* Packed, gzip's own end is missing too, which alone does no harm. */
TEST(a_dump_that_is_cut_off_gets_a_sentence)
{
    static uint8_t packed[1 << 18];
    FILE *file = fopen(CUFENCE_DUMPS "/load_128.core.gz", "rb");
    assert_non_null(file);
    size_t size = fread(packed, 1, sizeof packed, file);
    fclose(file);
    expect_in(EXPLAIN(put_file("cut.gz", packed, size / 2)).err, "or it is cut off\n");
    expect_in(EXPLAIN(put_file("cut.gz", packed, size - 4)).out, "27 lanes, any of which may have faulted");
}

/* tests/python/test_command_line.py has each kind of wrong file. In a folder the dumps are explained, and the rest is passed
 * over, also the pipe by which they are asked for. */
TEST(what_is_no_dump_is_passed_over)
{
    make_synthetic(&newest);
    struct span sound = dump_file(0xBE);
    expect_in(EXPLAIN(put_file("none", "\x1f\x8bhello", 7)).err, "cannot be unpacked: ");
    char dumps[128];
    snprintf(dumps, sizeof dumps, "%s", in_folder("dumps"));
    assert_int_equal(mkdir(dumps, 0700), 0);
    put_text("dumps/b.txt", "hello");
    put_file("dumps/a.core", sound.bytes, sound.size);
    fixture_free(sound);
    assert_int_equal(mkfifo(in_folder("dumps/corepipe"), 0600), 0);
    struct outcome outcome = EXPLAIN(dumps);
    expect_exit(&outcome, 0);
    assert_string_equal(outcome.err, "");
    expect_in(outcome.out, "oob<<<(5,1,1), (64,1,1)>>>");
    outcome = EXPLAIN(in_folder("dumps/a.core"), "/nonexistent");
    expect_exit(&outcome, 1);
    expect_in(outcome.out, "oob<<<");
    assert_string_equal(outcome.err, "cufence explain: /nonexistent: No such file or directory\n");
}

TEST_GROUP(make_folder, remove_folder)
