/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "arguments.h"
#include "cli.h"

#include "doctor.h"
#include "statuses.h"

#include "base/env.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *from_environment(const char *name)
{
    return env_get(name);
}

static int usage(void)
{
    printf("usage: cufence doctor [--json]\n\n"
           "Says what this machine's driver and permissions allow, and what to do about\n"
           "each no. A NO in capitals is something that cufence needs. It asks the python3\n"
           "on the PATH for PyTorch, JAX, CuPy and TensorFlow without importing them.\n\n"
           "  --json  prints the same as one JSON document (`cufence docs doctor`)\n\n"
           "Example: cufence doctor\n");
    statuses_print("doctor");
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
    judge_variables(&findings, environ);
    ask_python(&python);
    judge_python(&findings, &python, from_environment);
    judge_hidden(&findings, python.facts, from_environment);
    findings_conclude(&findings);
    size_t missing = findings_count(&findings, FOUND_MISSING);
    json_decref(python.facts);
    findings_free(&findings);
    return missing ? 1 : 0;
}

static const struct argument known[] = {{"json", NULL, "print one JSON document", NULL}};
const struct arguments doctor_arguments = {"doctor", known, 1, NULL, 0, 0};

int cli_doctor(int argc, char **argv)
{
    int option, is_json = 0;
    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return cli_doctor_probe();
    while ((option = arguments_next(&doctor_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option < 0)
            return option == ARGUMENTS_HELP ? usage() : CLI_USAGE;
        is_json = 1;
    }
    return optind < argc ? arguments_surplus("doctor", argv[optind]) : examine(is_json);
}
