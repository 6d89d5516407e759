/* The option table, its parser, and the error messages. */
#include "support/test.h"

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "../support/option_text.h"

#define GUARD "MIN or MIN..MAX, each 2M..64G"

static const struct option_row *row_named(const char *name)
{
    int is_exact;
    const struct option_row *row = options_find(name, strlen(name), &is_exact);
    if (!is_exact)
        fail_msg("no option is called %s", name);
    return row;
}

static struct options options; /* that were parsed last */

static const struct options *parsed(const char *text)
{
    options_default(&options);
    if (options_parse(&options, text, "test"))
        fail_msg("%s: %s", text, error_detail());
    return &options;
}

/* Nothing changes, and there is a sentence. */
static void expect_refused(const char *text, const char *message)
{
    struct options before;
    options_default(&options);
    options.align = 4;
    before = options;
    assert_int_equal(options_parse(&options, text, "test"), CUFENCE_ERROR_OPTION);
    assert_memory_equal(&options, &before, sizeof options);
    if (message)
        assert_string_equal(error_detail(), message);
}

/* What one writes, and what comes back in the shortest form. */
TEST(values_are_read_and_written_back)
{
    static const struct {
        const char *text, *name, *value;
    } cases[] = {
        {"uaf=strict", "uaf", "strict"},
        {"fill=nan", "fill", "0xff"},
        {"fill=0xA5", "fill", "0xa5"},
        {"skip=label:optim*;lib:libcublasLt*", "skip", "label:optim*;lib:libcublasLt*"},
        {"skip= func:forward ,align=1", "skip", "func:forward"},
        {"skip=file:*/model.py,skip=", "skip", ""},
        {"uaf=strict,uaf=off", "uaf", "off"},
        {"align=auto", "align", "auto"},
        {"align=1", "align", "1"},
        {"align=2M", "align", "2M"},
        {"align=0512", "align", "512"},
        {"nan=report+inf", "nan", "report+inf"},
        {"nan=stop+inf", "nan", "stop+inf"},
        {"side=alternate", "side", "alternate"},
        {"on_fault=continue", "on_fault", "continue"},
        {"guard=2097152", "guard", "2M"},
        {"guard=2048KiB", "guard", "2M"},
        {"guard=2mb", "guard", "2M"},
        {"guard=3145729B", "guard", "3145729"},
        {"guard=64G..64G", "guard", "64G"},
        {"guard=1g", "guard", "1G"},
        {"remember=16777216", "remember", "16777216"},
        {"peers=on", "peers", "on"},
        {"slack=off", "slack", "off"},
        {"log=report-%p.txt", "log", "report-%p.txt"},
        {"log=a=b c", "log", "a=b c"},
        {"log=x,log=", "log", ""},
        {"log=x,json=%r.json", "json", "%r.json"},
        {" \tstreams =  on ,\n", "streams", "on"},
        {"streams=on,", "streams", "on"},
        {"streams=on, ", "streams", "on"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char value[256];
        option_text(parsed(cases[i].text), row_named(cases[i].name), value, sizeof value);
        assert_string_equal(value, cases[i].value);
    }
}

/* Options of two parts; a part that is left out has its default, whatever was said before. */
TEST(merged_figures_set_their_parts)
{
    const uint64_t mib = 1 << 20;
    static const struct {
        const char *text;
        uint64_t first, second; /* MiB */
    } guards[] = {
        {"guard=2M..128M", 2, 128},         {"guard=2M", 2, 4096}, {"guard=8G", 8192, 8192}, {"guard=8M..8M", 8, 8},
        {"guard=2M..4M,guard=4M", 4, 4096},
    };
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        assert_int_equal(parsed(guards[i].text)->guard, guards[i].first * mib);
        assert_int_equal(options.guard_max, guards[i].second * mib);
    }
    assert_int_equal(parsed("remember=7/8")->history, 7);
    assert_int_equal(parsed("remember=7/8")->launches, 8);
    assert_int_equal(parsed("remember=7/8,remember=9")->launches, 4096);
    assert_int_equal(parsed("fill=0x11/nan")->fill, 0x11);
    assert_int_equal(parsed("fill=0x11/nan")->poison, 0xff);
    assert_int_equal(parsed("fill=0x11")->poison, FILL_OFF);
    assert_int_equal(parsed("wait_ms=5/100")->exit_wait, 5);
    assert_int_equal(parsed("wait_ms=5/100")->rerun_ms, 100);
    assert_int_equal(parsed("save_values=*=s;1K/0")->saves_max, 1024);
    assert_int_equal(options.save_replay, 0);
    assert_string_equal(options.save_values, "*");
    assert_string_equal(options.saved, "s");
    assert_int_equal(parsed("save_values=*=s;1K")->save_replay, 4);
    assert_int_equal(parsed("keep=a;1K")->save_max, 1024);
    assert_int_equal(parsed("keep=a;1K,keep=a")->save_max, UINT64_C(4) << 30);
    assert_int_equal(parsed("nan=stop/7")->every, 7);
    assert_int_equal(options.nan, NAN_STOP);
    assert_int_equal(parsed("nan=stop/7,nan=report")->every, 1);
    assert_int_equal(parsed("on_fault=abort/0")->exitcode, 0);
    assert_int_equal(parsed("on_fault=abort,on_fault=/3")->exitcode, 3);
    assert_int_equal(options.on_fault, ON_FAULT_ABORT);
    assert_int_equal(parsed("on_fault=/3,on_fault=error")->exitcode, 86);
}

TEST(merged_names_set_their_parts)
{
    static const struct {
        const char *text, *rules;
        uint64_t min_size;
    } skipped[] = {{"skip=smaller:4K", "", 4096},
                   {"skip=label:a;smaller:1;lib:b", "label:a;lib:b", 1},
                   {"skip=smaller:4K,skip=label:a", "label:a", 0},
                   {"skip=smaller:4K,skip=", "", 0}};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++) {
        assert_string_equal(parsed(skipped[i].text)->skip, skipped[i].rules);
        assert_int_equal(parsed(skipped[i].text)->min_size, skipped[i].min_size);
    }
    assert_string_equal(parsed("values=#1=x=y")->values, "#1");
    assert_string_equal(parsed("values=#1=x=y")->values_out, "x=y");
    assert_string_equal(parsed("values=#1=x,values=#2")->values_out, "");
}

TEST(wrong_parts_of_merged_options_are_refused)
{
    static const char *const bad[] = {"skip=smaller:",
                                      "skip=smaller:x",
                                      "explain=on",
                                      "leaks=exit",
                                      "nan=off/",
                                      "nan=report/0",
                                      "on_fault=/256",
                                      "on_fault=/",
                                      "keep=;4G",
                                      "nan=inf",
                                      "keep=dump=a",
                                      "keep=a;",
                                      "keep=-",
                                      "keep=replay=a",
                                      "values=#1=-",
                                      "wait_ms=1/99",
                                      "remember=1/65537",
                                      "remember=/1",
                                      "fill=nan/",
                                      "save_values=*=s;4G/4/4",
                                      "save_values=;x",
                                      "save_values=a",
                                      "save_values=a=",
                                      "save_values==b",
                                      "save_values=a=%q",
                                      "on_fault=error/-1",
                                      "on_fault=error/+1",
                                      "on_fault=error/1K",
                                      "nan=,",
                                      "on_fault=VALUE/1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refused(bad[i], NULL);
}

TEST(refusals_name_the_source_the_value_and_the_way_out)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"uaf=of", "test: uaf=of is not allowed; use off | adaptive | strict; did you mean off?"},
        {"uaf=|", "test: uaf=| is not allowed; use off | adaptive | strict"},
        {"uaf=", "test: uaf= is not allowed; use off | adaptive | strict"},
        {"uaf", "test: option uaf has no value; write uaf=VALUE, with off | adaptive | strict"},
        {"=strict", "test: '=strict' has no key; write key=value,key=value"},
        {",uaf=off", "test: '' has no key; write key=value,key=value"},
        {"uaf=off,,peers=on", "test: '' has no key; write key=value,key=value"},
        {"align=3", "test: align=3 is not allowed; use auto | a power of two 1..2M"},
        {"align=0", "test: align=0 is not allowed; use auto | a power of two 1..2M"},
        {"align=4M", "test: align=4M is not allowed; use auto | a power of two 1..2M"},
        {"guard=1M", "test: guard=1M is not allowed; use " GUARD},
        {"guard=65G", "test: guard=65G is not allowed; use " GUARD},
        {"guard=2 M", "test: guard=2 M is not allowed; use " GUARD},
        {"guard=2MiBs", "test: guard=2MiBs is not allowed; use " GUARD},
        {"guard=4194304iB", "test: guard=4194304iB is not allowed; use " GUARD},
        {"guard=G", "test: guard=G is not allowed; use " GUARD},
        {"guard=0x400000", "test: guard=0x400000 is not allowed; use " GUARD},
        {"guard=16777216T", "test: guard=16777216T is not allowed; use " GUARD},
        {"guard=18446744073709551616", "test: guard=18446744073709551616 is not allowed; use " GUARD},
        {"guard=18446744073713745920", "test: guard=18446744073713745920 is not allowed; use " GUARD},
        {"wait_ms=86400001", NULL},
        {"uaf=strct", "test: uaf=strct is not allowed; use off | adaptive | strict; did you mean strict?"},
        {"nan=stop+nif",
         "test: nan=stop+nif is not allowed; use off | report | stop | report+inf | stop+inf, also with /N; did you mean "
         "stop+inf?"},
        {"slack=1", "test: slack=1 is not allowed; use on | off"},
        {"skip=lib:a;lib:b;lib:c;lib:d;lib:e;lib:f;lib:g;lib:h;lib:i;lib:j;lib:k;lib:l;lib:m;lib:n;lib:o;lib:p;lib:q",
         "test: skip=lib:a;lib:b;lib:c;lib:d;lib:e;lib:f;lib:g;lib:h;lib:i;lib:j;lib:k;li... is not allowed; use "
         "KIND:GLOB;KIND:GLOB with the kinds label, func, file and lib, or smaller:BYTES; at most 16, 255 bytes"},
        {"log=%q", "test: log=%q is not allowed; use a file name up to 255 bytes, with %p %r %h %%"},
        {"log=a%", "test: log=a% is not allowed; use a file name up to 255 bytes, with %p %r %h %%"},
        {"guard=8G..4G", "test: guard=8G..4G is not allowed; use " GUARD},
        {"guard=8G..", "test: guard=8G.. is not allowed; use " GUARD},
        {"guard=..8G", "test: guard=..8G is not allowed; use " GUARD},
        {"uaf=strict,align=4,nonsense=1", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].text, cases[i].message);
}

TEST(an_unknown_key_gets_the_nearest_one)
{
    static const struct {
        const char *text, *start;
    } cases[] = {
        {"wait-ms=8", "test: unknown option 'wait-ms', did you mean 'wait_ms'?"},
        {"UAF=off", "test: unknown option 'UAF', did you mean 'uaf'?"},
        {"onfault=abort", "test: unknown option 'onfault', did you mean 'on_fault'?"},
        {"strems", "test: unknown option 'strems', did you mean 'streams'?"},
        {"xyzzy=1", "test: unknown option 'xyzzy';"},
        {"a\033[2Jb=1", "test: unknown option 'a?[2Jb';"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[1000];
        snprintf(message, sizeof message, "%s `cufence options` lists all", cases[i].start);
        expect_refused(cases[i].text, message);
    }
}

TEST(later_texts_win_and_empty_ones_are_fine)
{
    parsed(NULL);
    assert_int_equal(options_parse(&options, "", "test"), CUFENCE_OK);
    assert_int_equal(options_parse(&options, "  ", "test"), CUFENCE_OK);
    assert_int_equal(options_parse(&options, "align=1,peers=on", "CUFENCE_OPTIONS"), CUFENCE_OK);
    assert_int_equal(options_parse(&options, "align=2", "cufence_init"), CUFENCE_OK);
    assert_int_equal(options.align, 2);
    assert_int_equal(options.peers, PEERS_ON);
}

TEST(long_texts_are_cut_in_messages_and_bounded_in_paths)
{
    char text[5000] = "log=";
    memset(text + 4, 'x', 255);
    text[4 + 255] = '\0';
    assert_int_equal(strlen(parsed(text)->log), 255);
    strcat(text, "y");
    expect_refused(text, NULL);
    assert_non_null(strstr(error_detail(), "xxx... is not allowed"));

    memset(text, 'k', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect_refused(text, NULL);
    assert_non_null(strstr(error_detail(), "kkk...'"));
}

/* The `allowed` column is written for people; it must say the same as the limits do. */
TEST(every_row_allows_its_limits_and_no_more)
{
    size_t count;
    const struct option_row *rows = options_table(&count);
    assert_int_equal(count, 26); /* who adds one finds another to merge it with */
    for (size_t i = 0; i < count; i++) {
        struct options again;
        char value[256], text[320];
        assert_true(strlen(rows[i].help) > 10);
        memset(&options, 0xa5, sizeof options);
        options_default(&options);
        snprintf(text, sizeof text, "%s=%s", rows[i].name, rows[i].default_value);
        assert_int_equal(options_parse(&options, text, "test"), CUFENCE_OK);
        memset(&again, 0x5a, sizeof again);
        options_default(&again);
        assert_memory_equal(&options, &again, sizeof options);
        if (rows[i].set)
            continue;
        option_text(&options, &rows[i], value, sizeof value);
        assert_string_equal(value, rows[i].default_value);
        if (rows[i].rest || rows[i].set || (rows[i].type != OPTION_BYTES && rows[i].type != OPTION_NUMBER))
            continue;

        const char *dots = strstr(rows[i].allowed, "..");
        assert_non_null(dots);
        char ends[2][32];
        snprintf(ends[0], sizeof ends[0], "%.*s", (int)(dots - rows[i].allowed), rows[i].allowed);
        snprintf(ends[1], sizeof ends[1], "%s", dots + 2);
        uint64_t limits[2] = {rows[i].minimum, rows[i].maximum};
        for (int end = 0; end < 2; end++) {
            memcpy((char *)&again, &options, sizeof again);
            memcpy((char *)&again + rows[i].offset, &limits[end], sizeof limits[end]);
            option_text(&again, &rows[i], value, sizeof value);
            assert_string_equal(value, ends[end]);
        }
        snprintf(text, sizeof text, "%s=%s", rows[i].name, ends[1]);
        assert_int_equal(options_parse(&options, text, "test"), CUFENCE_OK);
        snprintf(text, sizeof text, "%s=%llu", rows[i].name, (unsigned long long)rows[i].maximum + 1);
        assert_int_equal(options_parse(&options, text, "test"), CUFENCE_ERROR_OPTION);
    }
}

static void expect_path(const char *name, const char *wanted)
{
    char out[512];
    assert_int_equal(options_expand_path(name, out, sizeof out), CUFENCE_OK);
    assert_string_equal(out, wanted);
}

TEST(file_names_are_expanded)
{
    char expected[64], host[256] = "";
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
    expect_path("a-%r-%%.txt", "a-0-%.txt");
    setenv("LOCAL_RANK", "3", 1);
    expect_path("%r", "3");
    setenv("RANK", "17", 1);
    expect_path("%r%r", "1717");
    snprintf(expected, sizeof expected, "/x/%ld", (long)getpid());
    expect_path("/x/%p", expected);
    gethostname(host, sizeof host - 1);
    expect_path("%h", host);
    expect_path("", "");
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
}

TEST(file_names_that_cannot_be_expanded_are_refused)
{
    static const struct {
        const char *name, *message;
        cufence_status status;
    } cases[] = {
        {"x%d", "file name 'x%d': 'd' after % is not allowed; use %p, %r, %h or %%", CUFENCE_ERROR_OPTION},
        {"x%", "file name 'x%': 'nothing' after % is not allowed; use %p, %r, %h or %%", CUFENCE_ERROR_OPTION},
        {"12345678", "file name '12345678' is longer than 7 bytes when expanded", CUFENCE_ERROR_OVERFLOW},
    };
    char out[8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(options_expand_path(cases[i].name, out, sizeof out), cases[i].status);
        assert_string_equal(error_detail(), cases[i].message);
    }
    assert_int_equal(options_expand_path("1234567", out, sizeof out), CUFENCE_OK);
}

TEST(slips_are_two_letters_at_most)
{
    static const struct {
        const char *word, *name;
        size_t edits;
    } cases[] = {
        {"uaf", "uaf", 0},        {"UAF", "uaf", 0},
        {"uav", "uaf", 1},        {"ua", "uaf", 1},
        {"algin", "align", 1},    {"rnu", "run", 1},
        {"lgn", "align", 2},      {"lgnn", "align", SIZE_MAX},
        {"vax", "uaf", SIZE_MAX}, {"anything", "json", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(text_slip(cases[i].word, strlen(cases[i].word), cases[i].name), cases[i].edits);
}
