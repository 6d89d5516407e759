/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "cli.h"
#include "doctor.h"

#include "base/env.h"

#include <string.h>

static int examine(int is_json)
{
    struct findings findings = {.is_json = is_json};
    struct preload_trial preload;
    struct python_trial python;
    try_preload(&preload);
    check_driver(&findings);
    judge_preload(&findings, &preload);
    check_system(&findings);
    ask_python(&python);
    judge_python(&findings, &python, env_get);
    judge_hidden(&findings, python.facts, env_get);
    findings_conclude(&findings);
    int status = findings.count[FOUND_MISSING] ? 1 : 0;
    json_decref(python.facts);
    findings_free(&findings);
    return status;
}

static const struct argument arguments[] = {{"json", NULL, "print one JSON document; see docs/doctor.md", .offset = 0}};

static int run(int argc, char **argv)
{
    int is_json = 0, status;
    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return doctor_probe();
    return arguments_read(&doctor_command, argc, argv, &is_json, &status) ? examine(is_json) : status;
}

const struct command doctor_command = {
    .name = "doctor",
    .help = "check this machine's driver and permissions, and say what to fix",
    .run = run,
    ARGUMENTS(arguments),
    .about =
        "Says what this machine's driver and permissions allow, and what to do about each no. A NO in capitals is something "
        "that cufence needs. It asks the python3 on the PATH for PyTorch, JAX, CuPy and TensorFlow without importing them.",
    .examples = "Example: cufence doctor\n",
};
