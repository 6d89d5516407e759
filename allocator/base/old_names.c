#include "options.h"

#include <string.h>

#define COMPARE "save_values= in both runs, and numpy compare them (see docs/values.md)"

static const struct {
    enum gone what;
    const char *names; /* with commas between them */
    const char *instead;
} gone[] = {
    {GONE_OPTION, "stats,stats_ms", "call cufence_get_stats(), cufence_get_streams() or, in Python, cufence.stats()"},
    {GONE_OPTION, "guard_max", "write guard=MIN..MAX"},
    {GONE_OPTION, "history", "write remember=BUFFERS"},
    {GONE_OPTION, "launches", "write remember=BUFFERS/LAUNCHES, such as remember=65536/16384"},
    {GONE_OPTION, "poison", "write fill=FRESH/FREED, such as fill=off/nan"},
    {GONE_OPTION, "exit_wait", "write wait_ms=EXIT"},
    {GONE_OPTION, "witness_ms", "write wait_ms=EXIT/RERUN, such as wait_ms=1000/60000"},
    {GONE_OPTION, "coredump", "write explain=off"},
    {GONE_OPTION, "witness", "write explain=auto, explain=dump or explain=rerun"},
    {GONE_OPTION, "live,usr1,at_exit", "write leaks=on, which reports what is still allocated at exit"},
    {GONE_OPTION, "quiet", "write say=quiet"},
    {GONE_OPTION, "verbose", "write say=verbose"},
    {GONE_OPTION, "record,save", "write keep=FOLDER"},
    {GONE_OPTION, "trace,trace_filter,trace_every", COMPARE},
    {GONE_COMMAND, "diff", COMPARE},
    {GONE_COMMAND, "completion", "bash finds share/bash-completion/completions/cufence by itself once cufence is installed"},
    {GONE_COMMAND, "docs", "the pages are files; `cufence --help` says in which folder"},
    {GONE_OPTION, "uninit", "cufence hunt --modes fresh"},
    {GONE_FLAG, "hunt --deep,hunt --tools,hunt --seconds,replay --under",
     "start the program itself under compute-sanitizer (docs/hunt.md says which of its tools)"},
    {GONE_FLAG, "hunt --first", "name one mode with --modes, or press Ctrl-C: what was found so far is listed"},
    {GONE_FLAG, "hunt --html", "hunt with --keep FOLDER, then `cufence report --html OUT FOLDER/*.json`"},
    {GONE_FLAG, "hunt --sarif", "hunt with --keep FOLDER, then `cufence report --sarif OUT FOLDER/*.json`"},
    {GONE_FLAG, "run --html", "run with --json FILE, then `cufence report --html OUT FILE`"},
    {GONE_FLAG, "run --sarif", "run with --json FILE, then `cufence report --sarif OUT FILE`"},
    {GONE_FLAG, "replay --exact",
     "nothing does what it did; `cufence replay FOLDER` launches the kernel and reports its fault"},
    {GONE_FLAG, "replay --set-arg,replay --buffer",
     "change the launch's arguments in launch.json, or the .npy file of a buffer, in a copy of the folder"},
    {GONE_FLAG, "replay --no-guards", "run the program without cufence: its buffers then have no guards"},
    {GONE_FLAG, "explain --registers,explain --memory", "cuda-gdb shows them: cuda-gdb -ex \"target cudacore FILE\""},
    {GONE_FLAG, "options --all", "`cufence options` lists all"},
    {GONE_OPTION, "estimate",
     "run it guarded: cufence_get_stats() and cufence.stats() say what it takes; the page on memory has the formula"},
    {GONE_OPTION, "nan_every,every", "write nan=report/N"},
    {GONE_OPTION, "values_type",
     "leave it out: the type is that of the kernel's signature, else words are shown as hex and float32"},
    {GONE_OPTION, "values_out", "write values=LAUNCHES=FILE"},
    {GONE_OPTION, "inf", "write nan=report+inf"},
    {GONE_OPTION, "min_size", "write skip=smaller:BYTES"},
    {GONE_OPTION, "only", "write skip=RULES with what is not to be guarded"},
    {GONE_OPTION, "sample", "write skip=smaller:BYTES or skip=RULES, or small=pack, which takes less memory"},
    {GONE_OPTION, "max_guarded", "write skip=smaller:BYTES or skip=RULES; what does not fit is left to the driver"},
    {GONE_OPTION, "suppress,baseline", "write known=FILE"},
    {GONE_OPTION, "save_replay", "write save_values=LAUNCHES=FOLDER;BYTES/REPLAYED, such as *gemm*=saved;4G/0"},
    {GONE_OPTION, "save_max", "write save_values=LAUNCHES=FOLDER;BYTES, and keep=FOLDER;BYTES for the memory of faults"},
    {GONE_OPTION, "exitcode", "write on_fault=error/STATUS, such as on_fault=error/0"},
    {GONE_OPTION, "max_reports", "100 findings are reported, and the rest are counted"},
    {GONE_OPTION, "color", "set NO_COLOR=1, or FORCE_COLOR=1, in the environment"},
    {GONE_OPTION, "fallback", "what does not fit is left to the driver, and counted at exit"},
};

const char *gone_instead(enum gone what, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        for (const char *at = gone[i].names; gone[i].what == what && *at; at += *at == ',') {
            size_t own = strcspn(at, ",");
            if (own == length && !memcmp(name, at, length))
                return gone[i].instead;
            at += own;
        }
    return NULL;
}
