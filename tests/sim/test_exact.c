/* `cufence replay --exact` of launches that were given a buffer with free rows, with a program that knows nothing of it
 * (saved_story.c), on the simulated device. Its kernel's machine code is that of fixtures/cubins. */
#include "support/folder.h"
#include "support/shell.h"

static int set_up(void **state)
{
    return make_folder(state) ||
           run_shell("tar -xzOf %s/cubins/cubins.tar.gz origins_80.cubin > origins.cubin", CUFENCE_FIXTURES);
}

static void save(const char *stories)
{
    if (run_shell("rm -rf s; LD_LIBRARY_PATH=%s %s run --small map --save-values '*=s' -- %s %s", CUFENCE_RUN_DRIVER,
                  CUFENCE_CLI, CUFENCE_SAVED_STORY, stories) != 0)
        fail_msg("%s", text);
}

#define expect_exact(arguments, status, ...)                                                                                   \
    expect_end(run_shell("%s replay --exact %s", CUFENCE_CLI, arguments), status, PATTERNS(__VA_ARGS__))

TEST(a_read_of_a_free_row_has_its_thread)
{
    save("stale_row");
    expect_exact(
        "s/000001-paged", 86,
        "^cufence replay: read of a free region: 4 bytes, from byte 0 of row 5 of kv \\(free, .*by request 4\\) on, by "
        "block \\(1,1,0\\) thread \\(0,0,0\\) and 31 more$",
        "^cufence replay:   LDG.* at paged\\+0x[0-9a-f]+ \\(derived\\)$",
        "^cufence replay: 1 of 3 accesses in the kernel's code leads to one of 1 free rows$");
    expect_exact("--json s/000001-paged", 86,
                 "^\\{.*\"kind\":\"read of a free region\".*\"block\":\\[1,1,0\\],\"thread\":\\[0,0,0\\]");
    /* The other request's table is another one: it is the table's bytes that are followed. */
    SUCCEEDS("python3 -c \"b = open('s/000001-paged/buffers/3.npy', 'rb').read(); "
             "open('t.npy', 'wb').write(b[:-4] + bytes([4, 0, 0, 0]))\"");
    expect_exact("--buffer 2=t.npy s/000001-paged", 0,
                 "^cufence replay: 0 of 3 accesses in the kernel's code lead to one of 1 ");
}

TEST(right_tables_are_silent)
{
    save("right_rows");
    expect_exact("s/000001-paged", 0, "^cufence replay: 0 of 3 accesses in the kernel's code lead to one of 1 free rows$");
}

TEST(a_bundle_of_a_fault_has_the_rows_of_the_launch)
{
    if (run_shell("rm -rf s; LD_LIBRARY_PATH=%s %s run --set arena=4G,keep=replay=s -- %s stale_and_far", CUFENCE_RUN_DRIVER,
                  CUFENCE_CLI, CUFENCE_SAVED_STORY) == 0)
        fail_msg("%s", text);
    SUCCEEDS("cp origins.cubin s/fault-*/kernel.cubin"); /* this device's dumps have code of their own */
    expect_exact("s/fault-*", 86,
                 "^cufence replay: read of a free region: 4 bytes, from byte 0 of row 5 of kv \\(free, released [0-9.]+ ms "
                 "ago( by request 4)?\\) "
                 "on, by block \\(1,0,0\\) thread \\(0,0,0\\) and 31 more$",
                 "accesses in the kernel's code leads to one of 1 free rows$");
    SUCCEEDS("grep 'Rows of these buffers that were free: 1' s/fault-*/README.md");
}

TEST(what_cannot_be_decided_is_told)
{
    save("stale_row scale");
    expect_exact("s/000002-scale", 87, "the kernel's code is not a cubin");
    SUCCEEDS("sed -i '/\"file\": \"3.npy\"/d' s/000001-paged/scene.json"); /* the table was left out */
    expect_exact(
        "s/000001-paged", 87,
        "1 of them are not decided for all threads: .* depends on values that are not known, first at paged\\+0x[0-9a-f]+");
    save("scale");
    expect_exact("s/000001-scale", 87,
                 "no row of its buffers was free at the launch, or none was divided with cufence_region\\(\\)$");
}

TEST(damaged_rows_are_refused)
{
    save("stale_row");
    SUCCEEDS("sed -i 's/\"size\": 256,/\"size\": 0,/' s/000001-paged/scene.json");
    expect_exact("s/000001-paged", 1, "a free row is damaged");
}

TEST_GROUP(set_up, remove_folder)
