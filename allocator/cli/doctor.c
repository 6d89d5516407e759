/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "cli.h"

#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *from_environment(const char *name)
{
    return getenv(name);
}

static int usage(void)
{
    printf(
        "usage: cufence doctor [--json]\n\n"
        "Says what this machine's driver and permissions allow, and what to do about each no. A NO in capitals is something\n"
        "that cufence needs. It asks the `python3` of the PATH for PyTorch, JAX, CuPy and TensorFlow without importing them.\n"
        "  --json  prints the same as one JSON document (docs/doctor.md)\n"
        "Exit status: 0 if cufence can work here, 1 if not.\n");
    return 0;
}

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
    judge_python(&findings, &python, from_environment);
    judge_hidden(&findings, python.facts, from_environment);
    findings_conclude(&findings);
    size_t missing = findings_count(&findings, FOUND_MISSING);
    json_decref(python.facts);
    findings_free(&findings);
    return missing ? 1 : 0;
}

int cli_doctor(int argc, char **argv)
{
    int is_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return cli_doctor_probe();
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage();
    if (argc > 1 && !is_json) {
        fprintf(stderr, "cufence doctor: allowed is --json, but got \"%s\"; see cufence doctor --help\n",
                argv[strcmp(argv[1], "--json") == 0 ? 2 : 1]);
        return CLI_USAGE;
    }
    return examine(is_json);
}
