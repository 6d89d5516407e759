/* `cufence run`: sets up the environment and becomes the program. Nothing of cufence's stays in between. */
#include "arguments.h"
#include "cli.h"
#include "cli/environment.h"
#include "cli/installed.h"
#include "cli/program.h"
#include "base/error.h"
#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CANNOT_RUN = PROGRAM_UNFIT };

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Options as they were given. */
struct setting {
    const char *source;
    char *text; /* "key=value,...", owned; NULL where the source gives none */
};

/* The settings' first places belong to the environment; those of the command line come behind and so win. */
enum inherited { FROM_OPTIONS, FROM_ALLOC_CONF, FROM_CUDA_ALLOC_CONF, INHERITED };

struct request {
    struct setting *settings; /* as many places as the command line can need; the last that counts comes last */
    size_t count;
    int is_verbose;
    int is_if_asked; /* only what PyTorch's variables ask for */
    char **command;  /* up to a NULL; NULL after --help */
};

static int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int complain(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("cufence run: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}

static int no_memory(void)
{
    return complain(CANNOT_RUN, "no host memory");
}

static void usage(void)
{
    printf("usage: cufence run [--set key=value[,key=value]]... [--json FILE] [--error-exitcode N] [--if-asked]\n"
           "                   [--verbose] [--] PROGRAM [ARGUMENT]...\n\n"
           "Runs a program with its GPU buffers under cufence: any program that uses CUDA, unmodified. The environment is set "
           "up,\n"
           "and the program then takes this process's place, with its input and output, signals and exit status.\n\n"
           "  --set key=value      an option (`cufence options` lists them); wins over CUFENCE_OPTIONS\n"
           "  --json FILE          the same as --set json=FILE: each report as a line of JSON (%%p, %%r, %%h in FILE: process, "
           "rank,\n"
           "                       host). FILE is seen from the folder that you are in\n"
           "  --error-exitcode N   the same as --set exitcode=N\n"
           "  --if-asked           only if PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF says backend:cufence; else run the "
           "program "
           "as it is\n"
           "  --verbose            say on stderr what is set up. (--set verbose=on lets cufence speak in the program)\n"
           "  --                   ends the options; a PROGRAM that begins with a dash needs it\n\n"
           "Exit status: the program's; 2 for a wrong command line or option, 126 if the program cannot be run under cufence,\n"
           "127 if there is no such program. A program that would have ended well after a fault ends with exitcode (86).\n");
}

/* ---- the command line ---- */

/* The option for a file named on the command line: whole, because the program may change its folder; as it was given where
 * the whole name is too long for an option or holds what means something there. NULL without memory. */
static char *json_option(const char *file)
{
    char folder[PATH_MAX] = "", *text = NULL;
    size_t size, longest = sizeof((struct options *)0)->log;
    if (file[0] != '/' &&
        (!getcwd(folder, sizeof folder) || strlen(folder) + strlen(file) + 2 > longest || strpbrk(folder, ",%")))
        folder[0] = '\0';
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "json=%s%s%s", folder, folder[0] ? "/" : "", file);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

static char *joined(const char *key, const char *value)
{
    char *text = NULL;
    return asprintf(&text, "%s%s", key, value) < 0 ? NULL : text;
}

enum known { SET, JSON, EXITCODE, IF_ASKED, VERBOSE };
static const struct argument known[] = {
    [SET] = {"set", "uaf=strict"},   [JSON] = {"json", "report.json"}, [EXITCODE] = {"error-exitcode", "86"},
    [IF_ASKED] = {"if-asked", NULL}, [VERBOSE] = {"verbose", NULL},
};
static const struct arguments arguments = {"run", known, COUNT(known), .is_operand_the_end = 1};

static int take_value(struct request *request, int option, const char *value)
{
    static const char *const sources[] = {[SET] = "--set", [JSON] = "--json", [EXITCODE] = "--error-exitcode"};
    char *text = NULL;
    if (option == JSON && (!*value || strchr(value, ',')))
        return complain(CLI_USAGE, "--json: the file name \"%s\" is %s", value,
                        *value ? "not possible: it holds a comma" : "empty");
    if (option == SET)
        text = strdup(value);
    else if (option == JSON)
        text = json_option(value);
    else
        text = joined("exitcode=", value);
    request->settings[request->count++] = (struct setting){sources[option], text};
    return text ? 0 : no_memory();
}

/* Returns 0 with the command, or without one after --help, or the exit status after a message. */
static int read_arguments(int argc, char **argv, struct request *request)
{
    int option, status = 0;
    while (status == 0 && (option = arguments_next(&arguments, argc, argv)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_WRONG)
            return CLI_USAGE;
        if (option == ARGUMENTS_HELP) {
            usage();
            return 0;
        }
        if (option == VERBOSE)
            request->is_verbose = 1;
        else if (option == IF_ASKED)
            request->is_if_asked = 1;
        else
            status = take_value(request, option, optarg);
    }
    if (status == 0 && optind == argc)
        return complain(CLI_USAGE, "no program given: cufence run [options] -- PROGRAM [ARGUMENT]...; see cufence run --help");
    request->command = argv + optind;
    return status;
}

/* ---- options ---- */

/* The length of an option text without the trailing comma that options_parse() allows. */
static size_t length_of(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    while (length && strchr(", \t", text[length - 1]))
        length--;
    return length;
}

/* All settings as one text, NULL without memory. */
static char *merge_settings(const struct request *request)
{
    char *merged = NULL;
    size_t size;
    FILE *out = open_memstream(&merged, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; i < request->count; i++) {
        const char *text = request->settings[i].text;
        int length = (int)length_of(text);
        if (length > 0)
            fprintf(out, "%s%.*s", ftell(out) > 0 ? "," : "", length, text);
    }
    if (fclose(out) == 0)
        return merged;
    free(merged);
    return NULL;
}

/* Checks the options as the program will read them. A message names the source of what is wrong; where only the whole is (a
 * guard_max below guard), it names none. */
static int check_options(const struct request *request, const char *merged, struct options *options)
{
    struct options scratch;
    if (options_parse(options, merged, "the options together") == CUFENCE_OK)
        return 0;
    for (size_t i = 0; i < request->count; i++) {
        options_default(&scratch);
        if (options_parse(&scratch, request->settings[i].text, request->settings[i].source) != CUFENCE_OK)
            return complain(CLI_USAGE, "%s", error_detail());
    }
    options_parse(options, merged, "the options together");
    return complain(CLI_USAGE, "%s", error_detail());
}

/* ---- the environment ---- */

/* Fills in the settings that the environment gives. `confs` gives its options away. */
static int inherit_settings(struct request *request, const struct environment *environment,
                            struct alloc_conf confs[ALLOC_CONFS])
{
    const char *inherited = environment_get(environment, "CUFENCE_OPTIONS");
    request->settings[FROM_OPTIONS] = (struct setting){"CUFENCE_OPTIONS", inherited ? strdup(inherited) : NULL};
    for (int i = 0; i < ALLOC_CONFS; i++) {
        request->settings[FROM_ALLOC_CONF + i] = (struct setting){alloc_conf_names[i], confs[i].options};
        confs[i].options = NULL;
    }
    return inherited && !request->settings[FROM_OPTIONS].text ? no_memory() : 0;
}

/* A name with %p, %r or %h in it is not known yet, but its folder may be. */
static int check_file(const char *key, const char *file)
{
    char folder[sizeof((struct options *)0)->log] = ".";
    const char *slash = strrchr(file, '/');
    struct stat found;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == file ? 1 : (int)(slash - file), file);
    if (!*file || strchr(folder, '%'))
        return 0;
    int is_there = !strchr(file, '%') && stat(file, &found) == 0;
    if (is_there && S_ISDIR(found.st_mode))
        return complain(CLI_USAGE, "%s=%s is a folder; name a file", key, file);
    if (access(is_there ? file : folder, is_there ? W_OK : W_OK | X_OK) == 0)
        return 0;
    return complain(CLI_USAGE, "%s=%s: no report can be written there: %s: %s", key, file, is_there ? file : folder,
                    strerror(errno));
}

static int set_options(const struct request *request, struct environment *environment, struct options *options)
{
    char *merged = merge_settings(request);
    if (!merged)
        return no_memory();
    int status = check_options(request, merged, options);
    if (status == 0)
        status = check_file("log", options->log);
    if (status == 0)
        status = check_file("json", options->json);
    if (status == 0 && merged[0]) {
        if (environment_set(environment, "CUFENCE_OPTIONS", merged) != CUFENCE_OK)
            status = complain(CANNOT_RUN, "%s", error_detail());
        else if (request->is_verbose)
            complain(0, "CUFENCE_OPTIONS=%s", merged);
    }
    free(merged);
    return status;
}

/* `own` gets this program's path. */
static int find_preload(char own[PATH_MAX], char preload[PATH_MAX])
{
    if (!installed_program(own))
        return complain(CANNOT_RUN, "cannot tell where cufence is installed: /proc/self/exe: %s", strerror(errno));
    if (!installed_preload(own, preload))
        return complain(CANNOT_RUN,
                        "cannot find " INSTALLED_PRELOAD " from where %s lies: " INSTALLED_PLACES
                        " were looked into; install cufence anew, with its libraries",
                        own);
    return 0;
}

static int set_up(struct request *request, struct environment *environment, struct alloc_conf confs[ALLOC_CONFS])
{
    char own[PATH_MAX], preload[PATH_MAX], bootstrap[PATH_MAX];
    struct options options;

    options_default(&options);
    if (environment_pytorch(environment, confs) != CUFENCE_OK)
        return complain(CANNOT_RUN, "%s", error_detail());
    int status = inherit_settings(request, environment, confs);
    if (status == 0)
        status = set_options(request, environment, &options);
    if (status == 0)
        status = find_preload(own, preload);
    if (status != 0)
        return status;
    if (environment_preload(environment, preload) != CUFENCE_OK || environment_frameworks(environment) != CUFENCE_OK ||
        (installed_bootstrap(own, bootstrap) && environment_python(environment, bootstrap) != CUFENCE_OK))
        return complain(CANNOT_RUN, "%s", error_detail());
    if (options.coredump)
        environment_coredumps(environment);
    return 0;
}

/* What --if-asked does where neither variable asks for cufence: nothing, but options for it are a mistake. */
static int leave_it(const struct environment *environment, const struct alloc_conf confs[ALLOC_CONFS])
{
    for (int i = 0; i < ALLOC_CONFS; i++)
        if (confs[i].options[0])
            return complain(CLI_USAGE, "%s has options of cufence (%s), but does not ask for it; add backend:" ALLOC_CONF_ASKED,
                            alloc_conf_names[i], confs[i].options);
    if (environment->words)
        complain(0, "neither %s nor %s asks for cufence", alloc_conf_names[0], alloc_conf_names[1]);
    return 0;
}

static int prepare(struct request *request, struct environment *environment)
{
    struct alloc_conf confs[ALLOC_CONFS];
    if (environment_copy(environment, environ, request->is_verbose ? stderr : NULL) != CUFENCE_OK)
        return complain(CANNOT_RUN, "%s", error_detail());
    cufence_status status = environment_read_pytorch(environment, confs);
    if (status != CUFENCE_OK)
        return complain(status == CUFENCE_ERROR_OPTION ? CLI_USAGE : CANNOT_RUN, "%s", error_detail());
    int is_left = request->is_if_asked && !alloc_conf_asking(confs);
    int outcome = is_left ? leave_it(environment, confs) : set_up(request, environment, confs);
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
    return outcome;
}

/* ---- the program ---- */

static int choose(const char *command, char path[PATH_MAX])
{
    int status = program_find(command, getenv("PATH"), path);
    if (status == PROGRAM_FITS)
        status = program_judge(path);
    return status == PROGRAM_FITS ? 0 : complain(status, "%s", error_detail());
}

static int become(const char *path, char **command, const struct environment *environment)
{
    if (environment->words)
        complain(0, "starts %s", path);
    execve(path, command, environment->entries);
    return complain(CANNOT_RUN, "%s cannot be run: %s", path, strerror(errno));
}

int cli_run(int argc, char **argv)
{
    struct request request = {.settings = calloc((size_t)argc + INHERITED, sizeof(struct setting)), .count = INHERITED};
    struct environment environment = {0};
    char path[PATH_MAX];

    if (!request.settings)
        return no_memory();
    int status = read_arguments(argc, argv, &request);
    if (request.command && status == 0)
        status = choose(request.command[0], path);
    if (request.command && status == 0)
        status = prepare(&request, &environment);
    if (request.command && status == 0)
        status = become(path, request.command, &environment);
    environment_free(&environment);
    for (size_t i = 0; i < request.count; i++)
        free(request.settings[i].text);
    free(request.settings);
    return status;
}
