/* `cufence run` and the reports of a program under it: options reach it, and the ranks of one launch write a file each.
 * The program uses the C API, so what is tested does not depend on the preload library. */
#include "child.h"

#include <cuda.h>
#include <sim.h>

#define CUFENCE CUFENCE_RUN_TREE "/bin/cufence"

static void write_past(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    out[t->thread_index[0]] = 1.0f;
}

/* The program under test: a kernel of 33 threads writes one float too far. */
static int overrun(void)
{
    static const size_t sizes[] = {8};
    static const cusim_kernel kernel = {"write_past", write_past, sizes, 1, "model.cu", 12, 4, 0, 0};
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    void *buffer = NULL;

    cusim_register_kernel(&kernel);
    CHECK_OK(cufence_init(NULL));
    CHECK_CU(cuDeviceGet(&device, 0));
    CHECK_CU(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&function, module, "write_past"));
    CHECK_OK(cufence_malloc(&buffer, 32 * sizeof(float), 0, NULL));
    void *arguments[] = {&buffer};
    CHECK_CU(cuLaunchKernel(function, 1, 1, 1, 33, 1, 1, 0, NULL, arguments, NULL));
    return 0;
}

static char folder[] = "/tmp/cufence-ranks-XXXXXX";
static char own[4096];

static int make_folder(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return -1;
    own[length] = '\0';
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* Runs a shell command, with CUFENCE, OWN and FOLDER set for it. */
static int shell(const char *command)
{
    setenv("CUFENCE", CUFENCE, 1);
    setenv("OWN", own, 1);
    setenv("FOLDER", folder, 1);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static size_t count_in(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

static void read_file(const char *name, char *text, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void each_rank_has_its_file(void **state)
{
    (void)state;
    char text[16384];
    /* As torchrun does: one parent, a child a rank, told by RANK. */
    int status = shell("\"$CUFENCE\" run --set \"log=$FOLDER/rank%r.txt\" -- sh -c '"
                       "RANK=0 \"$OWN\" overrun & first=$!; RANK=1 \"$OWN\" overrun & second=$!; "
                       "wait $first; one=$?; wait $second; two=$?; [ $one = 86 ] && [ $two = 86 ]' 2>/dev/null");
    assert_int_equal(status, 0);
    for (int rank = 0; rank < 2; rank++) {
        char name[32];
        snprintf(name, sizeof name, "rank%d.txt", rank);
        read_file(name, text, sizeof text);
        assert_int_equal(count_in(text, "out-of-bounds WRITE of 4 bytes"), 1);
        assert_int_equal(count_in(text, "buffer     #"), 1);
        assert_non_null(strstr(text, "128 bytes"));
    }
}

static void the_exit_status_of_a_fault_is_set(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$CUFENCE\" run -- \"$OWN\" overrun 2>/dev/null"), 86);
    assert_int_equal(shell("\"$CUFENCE\" run --error-exitcode 41 -- \"$OWN\" overrun 2>/dev/null"), 41);
    assert_int_equal(shell("\"$CUFENCE\" run --error-exitcode 0 -- \"$OWN\" overrun 2>/dev/null"), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "overrun"))
        return overrun();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_its_file),
        cmocka_unit_test(the_exit_status_of_a_fault_is_set),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
