#include "cli.h"

const struct command commands[] = {
    {"run", "run a CUDA program, unmodified, with its GPU buffers guarded", cli_run, &run_arguments},
    {"hunt", "run it once in each mode, and list what was found", cli_hunt, &hunt_arguments},
    {"demo", "plant a bug and show its report; on a simulated GPU if need be", cli_demo, &demo_arguments},
    {"explain", "explain a GPU core dump: what faulted, where each thread stood", cli_explain, &explain_arguments},
    {"replay", "launch a saved kernel again as it faulted, on any GPU of its kind", cli_replay, &replay_arguments},
#ifdef CUFENCE_HAS_LENS
    {"diff", "find the first launch in which two runs differ", cli_diff, &diff_arguments},
#endif
    {"report", "merge findings of many processes: a list, HTML page or SARIF", cli_report, &report_arguments},
    {"options", "print every option with its allowed values and default", cli_options, &options_arguments},
    {"doctor", "check this machine's driver and permissions, and say what to fix", cli_doctor, &doctor_arguments},
    {"docs", "print a page of the documentation, or list all pages", cli_docs, &docs_arguments},
    {"completion", "print completions for bash, zsh or fish", cli_completion, &completion_arguments},
    {0},
};
