/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "doctor.h"

#include "command_line.h"
#include "cli.h"

#include <string.h>

static int examine(int is_json)
{
    struct findings findings = {.is_json = is_json};
    check_preload(&findings);
    check_driver(&findings);
    check_system(&findings);
    check_python(&findings);
    findings_conclude(&findings);
    json_decref(findings.all);
    return findings.count[FOUND_MISSING] ? 1 : 0;
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
        "that cufence needs. It asks the python3 on the PATH for PyTorch without importing it.",
    .examples = "Example: cufence doctor\n",
};
