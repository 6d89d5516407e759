/* The second launch of a faulted kernel, in another process, on the simulated device. */
#include "second_launch.h"
#include "support/shell.h"
#include "support/fixture.h"
#include "unit/coredump_builder.h"

/* ---- what is learned ---- */

static void tell_last(void)
{
    fault_in("write_last", "explain=rerun");
}

TEST(test_last)
{
    expect_said(tell_last, PATTERNS("out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
                                    "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* re-run$",
                                    "written +4 bytes past the end: 2\\.5 +re-run", "model\\.cu:20", "!buffer .*candidate"));
}

/* Of three live buffers the one that the launch on record was given is named. */
TELLS(off, "the warp had exited", "buffer +#2, 4000 bytes", "!#[13], 64 bytes", "!re-run", "!thread \\(104")
{
    start("explain=dump");
    allocate(64);
    void *out = allocate(COUNT * 4);
    allocate(64);
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
}

/* The pointer lies behind the bytes of the arguments that a launch's record always has. */
TELLS(struct, PAST_THE_END, THREAD_PAST_THE_END)
{
    struct {
        char before[1000];
        void *out;
    } large = {{0}, NULL};
    start("explain=rerun");
    large.out = allocate(COUNT * 4);
    launch_all("write_by_struct", (void *[]){&large, &(int){COUNT}});
    cuCtxSynchronize();
}

FAULT_TELLS(far, "write_far", "explain=rerun", PAST_THE_END, THREAD_PAST_THE_END,
            "written +4 bytes past the end: 2\\.5 +re-run", "at least 4 bytes were written further")

/* More shared memory than a kernel has without being asked. */
TELLS(shared, PAST_THE_END, THREAD_PAST_THE_END)
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    launch_shared("write_last", (void *[]){&out, &(int){COUNT}}, 100000);
    cuCtxSynchronize();
}

/* 800 warps, whose dump would take long: 64 of them fault there as well, ... */
TELLS(few_blocks, "block \\(7,0,0\\) thread \\(104,0,0\\)", "as <<<\\(200,1,1\\)", "looked for in the first 16 of 200 blocks")
{
    blocks = 200;
    fault_in("write_last", "explain=rerun");
}

/* ... or not. */
TELLS(too_few_blocks, "block \\(100,0,0\\) thread \\(100,0,0\\)", "!looked for")
{
    blocks = 200;
    start("explain=rerun");
    launch("write_last", allocate(12900 * 4), 12900);
    cuCtxSynchronize();
}

/* No access is involved, and the warp has exited. */
FAULT_TELLS(exception, "end_illegally", "explain=rerun", "exception: illegal instruction", "end_illegally",
            "block \\(7,0,0\\) thread \\(104,0,0\\)", "model\\.cu:170", "no buffer is involved")

static void tell_kept(void)
{
    char options[128];
    snprintf(options, sizeof options, "explain=rerun,keep=%s", folder);
    fault_in("write_last", options);
}

/* `cufence explain` tells from the files what the program told, in the same words. */
TEST(test_kept)
{
    char line[512];
    struct outcome outcome = run_child(tell_kept);
    SUCCEEDS("%s explain .", CUFENCE_CLI);
    size_t found = 0;
    for (const char *at = outcome.err, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *said = strstr(at, "== ");
        if (!said || said > end || (strncmp(said, "==   ", 5) != 0 && strncmp(said, "== SUMMARY", 10) != 0))
            continue;
        snprintf(line, sizeof line, "%.*s", (int)(end - said - 3), said + 3);
        if (!strstr(text, line))
            fail_msg("not explained: %s\nbut:\n%s", line, text);
        found += strstr(line, "re-run") != NULL;
    }
    assert_true(found >= 4); /* headline, address, bytes written, arguments */
    free(outcome.err);
}

#define RANKS 3

static void tell_ranks(void)
{
    for (int i = 1; i < RANKS; i++)
        if (fork() == 0) {
            tell_last();
            exit(0);
        }
    tell_last();
    CHECK_OK(cufence_wait_reports(60000));
    while (wait(NULL) > 0)
        ;
}

/* Processes that fault at once each have a second launch and a report of their own. */
TEST(test_ranks)
{
    struct outcome outcome = run_child(tell_ranks);
    int pids[RANKS] = {0}, reports = 0;
    for (const char *line = outcome.err; line; line = strchr(line, '\n')) {
        int pid = 0, length = 0;
        line += *line == '\n';
        sscanf(line, "==%d== cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)%n", &pid,
               &length);
        if (!length)
            continue;
        assert_true(reports < RANKS);
        for (int i = 0; i < reports; i++)
            assert_int_not_equal(pids[i], pid);
        pids[reports++] = pid;
    }
    if (reports != RANKS)
        fail_msg("%d reports in:\n%s", reports, outcome.err);
    free(outcome.err);
}

/* ---- what the kernel was given ---- */

static void fill(void *pointer, const void *bytes, size_t size)
{
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)pointer, bytes, size));
}

/* Of a large buffer only the ends are read. unit.golden has what is said of other figures (rerun_given). */
TELLS(large, "   float64\\[6291456\\]  of 16 MiB:", "min -1\\.0 max 3\\.0 mean 0\\.0", " 2097148 zeros,",
      "   float32\\[8\\]  all are 0")
{
    const size_t size = (size_t)48 << 20;
    const double numbers[] = {-1, 3}, middle = 5;
    int n = 8;
    start("explain=rerun");
    char *in = allocate(size), *out = allocate(32);
    fill(in, numbers, sizeof numbers);
    fill(in + size / 2, &middle, sizeof middle);
    fill(in + size - sizeof numbers, numbers, sizeof numbers);
    launch_all("_Z9write_endPKdPfi", (void *[]){&in, &out, &n});
    cuCtxSynchronize();
}

/* ---- when it cannot be done ---- */

FAULT_TELLS(once, "write_once", "explain=rerun", "illegal memory access", "did not fault")

/* The second launch has another heap, so its address is not the fault's. */
FAULT_TELLS(heap, "malloc", "explain=rerun", "illegal memory access by a WRITE", "model\\.cu:190", "!wild", "!thread \\(",
            "cannot have the device heap \\(the module calls malloc\\(\\)\\), so its facts are not used")

/* What it had found before the time was over counts. */
FAULT_TELLS(cut, "hang_again", "explain=rerun,wait_ms=1000/6000", PAST_THE_END, WRITTEN_PAST_THE_END,
            "of the second launch: it took longer than wait_ms=1000/6000", "!thread \\(")

/* The second launch wrote many pieces into one guard, but did not fault. */
FAULT_TELLS(pieces, "write_pieces", "explain=rerun", "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
            "written +4 bytes past the end: 2\\.5 +re-run", "and more, 384 bytes in all", "address .* re-run$")

FAULT_TELLS(death, "end_later", "explain=rerun", "illegal memory access", "could not be launched again: ")

TELLS(withheld, "the warp had exited", "could not be launched again: memory that the")
{
    setenv("CUFENCE_SIM", "shareable=0", 1);
    fault_in("write_last", "explain=rerun");
}

/* The device has room for the copy, and for no page to see what is written. */
TELLS(full, PAST_THE_END, THREAD_PAST_THE_END, "of the second launch: ")
{
    setenv("CUFENCE_SIM", "memory=2M", 1);
    fault_in("write_last", "explain=rerun,small=map");
}

/* ---- the program does not notice: sim.rerun_ends has its signals and children ---- */

/* Counts descriptors that are no ordinary files: a report opens those of libraries to find source lines. */
static int count_descriptors(void)
{
    char name[64], target[256];
    int count = 0;
    for (int i = 0; i < 1024; i++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", i);
        ssize_t length = readlink(name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        count += length > 0 && (*target != '/' || !strncmp(target, "/memfd", 6));
    }
    return count;
}

TELLS(no_trace, "re-run")
{
    setenv("TMPDIR", folder, 1);
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    int descriptors = count_descriptors();
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    AWAIT(count_descriptors() == descriptors); /* closed behind the report */
    CHECK(rmdir(folder) == 0);
    CHECK(count_descriptors() == descriptors);
}

/* Without the preload library nobody sees how the program ends, so the report comes before the error. */
TELLS(report_first, "could not be launched again")
{
    start("explain=rerun,wait_ms=1000/300");
    launch("hang_later", allocate(COUNT * 4), COUNT);
    while (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        usleep(1000);
    CHECK(cufence_fault_count() == 1);
}

/* ---- which of many launches on record has faulted ---- */

static const char *sim_of_rerun; /* the simulated device of the rerun process; NULL: as this one's */

/* 80 launches with eight buffers, each with a length of its own: number `wrong` is one too long. Only one like that runs; the
 * others are on record. */
static void record_many(const char *kernel, int wrong, const char *options)
{
    void *buffers[8], **sixth = &buffers[5];
    start(options);
    if (sim_of_rerun)
        setenv("CUFENCE_SIM", sim_of_rerun, 1); /* this process has read it */
    for (int i = 0; i < 8; i++)
        buffers[i] = allocate(COUNT * 4);
    for (int i = 0; i < 80; i++)
        record_launch(kernel, (void *[]){i == wrong ? sixth : &buffers[i % 8], &(int){i == wrong ? COUNT : COUNT - 2 - i}}, 0);
    CUfunction function;
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, (void *[]){sixth, &(int){COUNT}}, NULL));
    cuCtxSynchronize();
}

/* Each set of arguments has its turn, until the one that faults. */
TELLS(many, "0 bytes past the end of buffer #6", THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "arguments .*buffer #6 \\+0")
{
    record_many("write_last", 11, "explain=rerun");
}

/* If none of them faults, that is said of all. */
TELLS(none_of_many, "none of the 80 launches")
{
    record_many("write_once", -1, "explain=rerun");
}

TELLS(time_for_some_of_many, "1 of 80 launches that it may have been were", "wait_ms=1000/4000 was over")
{
    record_many("hang_later", -1, "explain=rerun,wait_ms=1000/4000");
}

#define SLOW "latency=cuDevicePrimaryCtxRetain:4000000" /* how long each process takes to begin, in us */

TELLS(time_for_one_look, "0 bytes past the end of buffer #6", THREAD_PAST_THE_END, "!written +[0-9]",
      "of the second launch: it took longer than wait_ms=1000/7000")
{
    sim_of_rerun = SLOW;
    record_many("write_last", 79, "explain=rerun,wait_ms=1000/7000");
}

/* The host's memory takes the place of what one launch reaches, but not of more. */
TELLS(room_for_some_of_many, "of launches that it may have been 2 did not",
      "fault, and the GPU has no room for what the others reach")
{
    sim_of_rerun = "fail=cuMemCreate:2:2"; /* CUDA_ERROR_OUT_OF_MEMORY */
    record_many("write_once", -1, "explain=rerun");
}

/* ---- kernels into whose code no barriers fit, or whose code the driver refuses; with barriers, the thread is found, and what
 * its address is made of ---- */

/* Loads a module with the code of a kernel of kernels.sass but the last `less` instructions. */
static void load(const char *kernel, size_t less)
{
    struct span code = fixture_code(kernel);
    char names[32] = "";
    size_t bytes = code.size - less * 16, size, length = 2 + (size_t)snprintf(names + 1, sizeof names - 1, "%s", kernel);
    struct dump_builder builder;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, length, 0, 0);
    builder_put(&builder, strings, 0, names, length);
    uint32_t section = builder_add(&builder, SHT_PROGBITS, 0, bytes, 0, 0);
    builder.sections[section].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    builder_put(&builder, section, 0, code.bytes, bytes);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 2 * sizeof(Elf64_Sym), strings, 0);
    const Elf64_Sym symbol = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)section, 0, bytes};
    builder_put(&builder, symbols, sizeof symbol, &symbol, sizeof symbol);
    CHECK_CU(cuModuleLoadData(&module, builder_finish(&builder, 0xBE, &size)));
    builder_end(&builder);
    fixture_free(code);
}

static void overrun(void)
{
    int n = COUNT;
    void *out = allocate(COUNT * 4), *other = allocate(64);
    launch_all("store_first", (void *[]){&out, &other, &n});
    cuCtxSynchronize();
}

/* What was written tells the address; no dump has the warp. */
TELLS(unfenced, PAST_THE_END, "address .* re-run$", "written +4 bytes past the end: 2\\.5 +re-run", "!thread \\(")
{
    start("explain=rerun");
    load("store_first", 0);
    overrun();
}

TELLS(fenced, "block \\(7,0,0\\) thread \\(104,0,0\\)")
{
    start("explain=rerun");
    load("store_first", 1);
    overrun();
}

TELLS(refused, "could not be launched again: cuModuleLoadData:",
      "illegal memory access by a WRITE, through a pointer into buffer #1 \\(derived\\)", "!thread \\(", "!written",
      "!address .* re-run$")
{
    start("explain=rerun");
    load("store_first", 1);
    setenv("CUFENCE_SIM", "fail=cuModuleLoadData:0:200", 1); /* this process has read it */
    overrun();
}

static void tell_there(int place)
{
    start(sim_of_rerun ? "explain=rerun,wait_ms=1000/7000" : "explain=rerun,json=there.json");
    load("store_there", 0);
    if (sim_of_rerun)
        setenv("CUFENCE_SIM", sim_of_rerun, 1);
    int *out = allocate(COUNT * 4), *places = allocate(52), last = COUNT + 5;
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)(places + place), &last, sizeof last));
    places += place;
    launch_all("store_there", (void *[]){&out, &places});
    cuCtxSynchronize();
}

/* The memory is read for the index, by a process of its own. */
TELLS(loaded, "out-of-bounds WRITE of 4 bytes, 20 bytes past the end of buffer #1",
      "cause +index 1005 was loaded from buffer #2 \\(argument 1\\), element 7 of 13 ",
      "hint +the kernel takes the index as it is in memory")
{
    tell_there(7);
}

TELLS(loaded_from_outside, "20 bytes past the end of buffer #1",
      "cause +index 1005 was loaded from buffer #2, element 14 of 13 ", "4 bytes past its( end)?",
      "hint +the index itself was read outside of buffer #2")
{
    tell_there(14); /* in the slack, which no access to it tells */
}

TELLS(no_time_for_the_cause, "20 bytes past the end of buffer #1", "!cause  ",
      "of the second launch: it took longer than wait_ms=1000/7000, so not all was looked at")
{
    sim_of_rerun = SLOW;
    tell_there(7);
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
