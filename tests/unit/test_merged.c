/* Which reports are the same finding for `cufence hunt`, and what it makes of files that are damaged. */
#include "support/folder.h"

#include "cli/hunt.h"

static struct collected merged;

static int forget(void **state)
{
    char command[64];
    collected_free(&merged);
    snprintf(command, sizeof command, "rm -f %s/*", folder);
    return system(command);
}

static unsigned mode_of(const char *name)
{
    unsigned mode = 0;
    while (strcmp(modes[mode].name, name) != 0)
        mode++;
    return mode;
}

static void read_file(const char *name, unsigned mode)
{
    merged.tag = mode;
    collected_read(&merged, NULL, in_folder(name));
}

#define KERNEL(symbol, place) "\"kernel\":{\"symbol\":\"" symbol "\"," place "}"
#define LINE "\"file\":\"a.cu\",\"line\":7"
#define SIZED "\"buffer\":{\"size\":64}"
#define STACK(line)                                                                                                            \
    "\"buffer\":{\"size\":64,\"allocated\":{\"frames\":[{\"file\":\"m.py\",\"line\":" line ",\"function\":\"f\"}]}}"
#define REPORT(rest) "{\"schema\":1,\"kind\":\"overrun\"," rest "}\n"

TEST_WITH(what_differs_is_another_finding, NULL, forget)
{
    static const struct {
        const char *first, *second;
        size_t findings;
    } cases[] = {
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(SIZED "," KERNEL("k", LINE)), 1},
        /* the code behind a line may differ between modes */
        {REPORT(KERNEL("k", LINE ",\"offset\":64") "," SIZED), REPORT(KERNEL("k", LINE ",\"offset\":96") "," SIZED), 1},
        {REPORT(KERNEL("k", "\"offset\":64") "," SIZED), REPORT(KERNEL("k", "\"offset\":96") "," SIZED), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("m", LINE) "," SIZED), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), "{\"schema\":1,\"kind\":\"underrun\"," KERNEL("k", LINE) "," SIZED "}\n", 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":65}"), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":64,\"label\":\"y\"}"), 2},
        /* where a buffer was allocated says more than its size */
        {REPORT(KERNEL("k", LINE) "," STACK("1")), REPORT(KERNEL("k", LINE) "," STACK("2")), 2},
        {REPORT(KERNEL("k", LINE) "," STACK("1")),
         REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":99,\"allocated\":{\"frames\":[{\"file\":\"m.py\",\"line\":1,"
                                  "\"function\":\"f\"}]}}"),
         1},
        {"{\"schema\":1,\"kind\":\"double free\",\"call\":\"cuMemFree\"," SIZED "}\n",
         "{\"schema\":1,\"kind\":\"double free\",\"call\":\"cuMemFreeAsync\"," SIZED "}\n", 2},
        {"{\"schema\":1,\"kind\":\"double "
         "free\",\"call\":\"cuMemFree\",\"called\":{\"frames\":[{\"function\":\"f\",\"offset\":1}]}}\n",
         "{\"schema\":1,\"kind\":\"double "
         "free\",\"call\":\"cuMemFree\",\"called\":{\"frames\":[{\"function\":\"f\",\"offset\":2}]}}\n",
         2},
        /* where it was found does not count */
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) "," SIZED ",\"device\":{\"ordinal\":1}"), 1},
        {REPORT(KERNEL("k", LINE)), REPORT(KERNEL("k", "\"file\":\"a.cu\",\"line\":8")), 2},
        {"{\"schema\":1,\"kind\":\"exception\",\"exception\":{\"number\":1}}\n",
         "{\"schema\":1,\"kind\":\"exception\",\"exception\":{\"number\":2}}\n", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("end.1.json", cases[i].first);
        put_text("strict.2.json", cases[i].second);
        read_file("end.1.json", mode_of("end"));
        read_file("strict.2.json", mode_of("strict"));
        if (merged.count != cases[i].findings)
            fail_msg("%zu findings of\n%s%s", merged.count, cases[i].first, cases[i].second);
        assert_int_equal(merged.findings[0].count, 3 - merged.count);
        assert_int_equal(merged_by(&merged, mode_of("strict")), 1);
        assert_int_equal(merged_by(&merged, mode_of("align")), 0);
        forget(NULL);
    }
}

TEST_WITH(lines_that_are_no_report_are_counted, NULL, forget)
{
    put_text("end.1.json", "{\"kind\":\"overr\n\n[]\n{\"kind\":3}\n" REPORT(SIZED) "{\"kind\":\"under");
    put_text("end.2.json", "");
    read_file("end.1.json", 0);
    read_file("end.2.json", 0);
    read_file("not there", 0);
    assert_int_equal(merged.count, 1);
    assert_int_equal(merged.findings[0].count, 1);
    assert_int_equal(merged.unreadable, 4);
}

TEST_GROUP(make_folder, remove_folder)
