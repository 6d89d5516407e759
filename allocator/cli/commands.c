#include "cli.h"

const struct command commands[] = {
    {"run", "any program that uses CUDA, unmodified, with its GPU buffers under cufence", cli_run, &run_arguments},
    {"hunt", "the same program in every mode in turn, and one list of what was found", cli_hunt, &hunt_arguments},
    {"demo", "a planted bug and its report, on a simulated device where there is no GPU", cli_demo, &demo_arguments},
    {"explain", "a GPU core dump in words: what faulted, and where every thread stood", cli_explain, &explain_arguments},
    {"replay", "a saved kernel again as it faulted, in a second, on any GPU of its kind", cli_replay, &replay_arguments},
    {"diff", "two runs, launch by launch: the first that differs, and whether its inputs did", cli_diff, &diff_arguments},
    {"report", "the findings of many processes as one list, HTML page, or SARIF", cli_report, &report_arguments},
    {"options", "every option with its allowed values and default; checks a list of them", cli_options, &options_arguments},
    {"doctor", "what this machine's driver and permissions allow, and what to do about each 'no'", cli_doctor,
     &doctor_arguments},
    {"completion", "the names of all this for your shell: bash, zsh or fish", cli_completion, &completion_arguments},
    {0},
};
