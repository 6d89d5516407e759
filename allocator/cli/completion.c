/* `cufence completion`: what a shell needs to complete a command line, made from the tables that read it. */
#include "arguments.h"
#include "cli.h"
#include "statuses.h"
#include "base/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 128 };

static int usage(void)
{
    printf("usage: cufence completion bash|zsh|fish\n\n"
           "Prints a script that completes commands, options and their values.\n\n"
           "  bash  eval \"$(cufence completion bash)\" in ~/.bashrc\n"
           "  zsh   cufence completion zsh > FOLDER/_cufence, with FOLDER in fpath, before\n"
           "        compinit\n"
           "  fish  cufence completion fish > ~/.config/fish/completions/cufence.fish\n\n"
           "Example: eval \"$(cufence completion bash)\"\n");
    statuses_print("completion");
    return 0;
}

/* ---- the values of an option ---- */

static int is_any_of(const char *values, const char *what)
{
    return values && !strcmp(values, what);
}

static int is_list(const char *values)
{
    return values && !is_any_of(values, ARGUMENT_FILE) && !is_any_of(values, ARGUMENT_FOLDER) &&
           !is_any_of(values, ARGUMENT_COMMAND);
}

/* As `values` of an argument; `out` is room for a list. */
static const char *row_values(const struct option_row *row, char out[LONGEST])
{
    switch (row->type) {
    case OPTION_CHOICE:
    case OPTION_SWITCH:
        out[0] = '\0';
        for (const char *at = row->allowed; *at; at += strcspn(at, " "), at += strspn(at, " |"))
            snprintf(out + strlen(out), LONGEST - strlen(out), "%s%.*s", *out ? " " : "", (int)strcspn(at, " "), at);
        return out;
    case OPTION_ALIGN:
        return "auto 1 2 4 8 16 32 64 128 256 512";
    case OPTION_FILL:
        return "off nan";
    case OPTION_PATH:
        return strcasestr(row->allowed, "folder") ? ARGUMENT_FOLDER : ARGUMENT_FILE;
    case OPTION_BYTES:
    case OPTION_NUMBER:
    case OPTION_RULES:
    case OPTION_SAMPLE:
    case OPTION_FILTER_PATH:
    case OPTION_FILTER:
    case OPTION_TEXT:
        break;
    }
    return NULL;
}

/* A row of the library's table that no option of the sub-command hides. */
static int is_shown(const struct arguments *arguments, const struct option_row *row)
{
    for (size_t i = 0; i < arguments->count; i++)
        if (!strcmp(arguments->known[i].name, row->name))
            return 0;
    return 1;
}

/* Calls `put` for each option of a sub-command. */
typedef void put_option(const struct command *command, const struct argument *argument);
static void each_option(const struct command *command, put_option *put)
{
    const struct arguments *arguments = command->arguments;
    size_t rows;
    const struct option_row *row = options_table(&rows);
    for (size_t i = 0; i < arguments->count; i++)
        put(command, &arguments->known[i]);
    for (size_t i = 0; arguments->has_library && i < rows; i++) {
        char values[LONGEST];
        struct argument argument = {row[i].name, row[i].allowed, row[i].help, row_values(&row[i], values)};
        if (is_shown(arguments, &row[i]))
            put(command, &argument);
    }
    put(command, &(struct argument){"help", NULL, "say what it does", NULL});
}

/* ---- bash ---- */

static void bash_name(const struct command *command, const struct argument *argument)
{
    (void)command;
    printf(" --%s", argument->name);
}

static void bash_flag(const struct command *command, const struct argument *argument)
{
    (void)command;
    if (!argument->example)
        printf(" --%s", argument->name);
}

static void bash_values(const struct command *command, const struct argument *argument)
{
    (void)command;
    if (argument->values)
        printf("        --%s) values=\"%s\" ;;\n", argument->name, argument->values);
}

static void bash_command(const struct command *command)
{
    printf("    %s)\n        options=\"", command->name);
    each_option(command, bash_name);
    printf(" \" flags=\"");
    each_option(command, bash_flag);
    printf(" \" operands=\"%s\"\n        case $previous in\n",
           command->arguments->operands ? command->arguments->operands : "");
    each_option(command, bash_values);
    printf("        esac\n        ;;\n");
}

static const char bash_begin[] =
    "# bash completion of cufence, made by `cufence completion bash`\n"
    "_cufence_words() {\n"
    "    case $1 in\n"
    "    " ARGUMENT_FILE ") mapfile -t COMPREPLY < <(compgen -f -- \"$2\") ;;\n"
    "    " ARGUMENT_FOLDER ") mapfile -t COMPREPLY < <(compgen -d -- \"$2\") ;;\n"
    "    " ARGUMENT_COMMAND ") mapfile -t COMPREPLY < <(compgen -c -- \"$2\"; compgen -f -- \"$2\") ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$2\") ;;\n"
    "    esac\n"
    "}\n\n"
    "# The place of the program in the command line of run and hunt.\n"
    "_cufence_program() {\n"
    "    for ((program = 2; program < COMP_CWORD; program++)); do\n"
    "        case ${COMP_WORDS[program]} in\n"
    "        --) ((program++)); is_ended=1; return ;;\n"
    "        =) ((program++)) ;;\n"
    "        -*) [[ $flags == *\" ${COMP_WORDS[program]} \"* || ${COMP_WORDS[program + 1]} == = ]] || ((program++)) ;;\n"
    "        *) return ;;\n"
    "        esac\n"
    "    done\n"
    "}\n\n"
    "_cufence() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local options='' flags='' values='' operands='' program=0 is_ended=0\n"
    "    COMPREPLY=()\n"
    "    if [[ $current == = ]]; then # --key=value is three words\n"
    "        current=''\n"
    "    elif [[ $previous == = ]]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";

static const char bash_end[] = "    if [[ $operands == " ARGUMENT_COMMAND " ]]; then\n"
                               "        _cufence_program\n"
                               "        if ((program < COMP_CWORD)); then\n"
                               "            if declare -F _command_offset >/dev/null; then\n"
                               "                _command_offset \"$program\"\n"
                               "            else\n"
                               "                _cufence_words " ARGUMENT_FILE " \"$current\"\n"
                               "            fi\n"
                               "            return\n"
                               "        fi\n"
                               "    fi\n"
                               "    if [[ -n $values && $is_ended == 0 ]]; then\n"
                               "        _cufence_words \"$values\" \"$current\"\n"
                               "    elif [[ $current == -* && $is_ended == 0 ]]; then\n"
                               "        _cufence_words \"$options\" \"$current\"\n"
                               "    elif [[ $options != *\" $previous \"* || $flags == *\" $previous \"* ]]; then\n"
                               "        _cufence_words \"$operands\" \"$current\"\n"
                               "    fi\n"
                               "}\n"
                               "complete -o filenames -F _cufence cufence\n";

static void put_bash(void)
{
    fputs(bash_begin, stdout);
    printf("    if ((COMP_CWORD == 1)); then\n        _cufence_words \"");
    for (const struct command *command = commands; command->name; command++)
        printf("%s ", command->name);
    printf("help --help --version\" \"$current\"\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n    help) operands=\"");
    for (const struct command *command = commands; command->name; command++)
        printf("%s ", command->name);
    printf("\" ;;\n");
    for (const struct command *command = commands; command->name; command++)
        bash_command(command);
    printf("    esac\n");
    fputs(bash_end, stdout);
}

/* ---- zsh ---- */

/* In single quotes; what means something to _arguments gets a backslash. */
static void zsh_text(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", stdout);
        else if (strchr(special, *text))
            putchar('\\');
        putchar(*text);
    }
}

static void zsh_values(const char *what, const char *values)
{
    if (is_list(values))
        printf(":%s:(%s)", what, values);
    else if (is_any_of(values, ARGUMENT_COMMAND))
        printf(":%s:_normal", what);
    else if (values)
        printf(":%s:_files%s", what, is_any_of(values, ARGUMENT_FOLDER) ? " -/" : "");
    else
        printf(":%s: ", what);
}

static void zsh_option(const struct command *command, const struct argument *argument)
{
    (void)command;
    printf(" \\\n            '--%s%s[", argument->name, argument->example ? "=" : "");
    zsh_text(argument->help, "[]:\\");
    putchar(']');
    if (argument->example)
        zsh_values(argument->name, argument->values);
    putchar('\'');
}

static void put_zsh(void)
{
    printf("#compdef cufence\n# zsh completion of cufence, made by `cufence completion zsh`\n_cufence() {\n"
           "    local -a commands=(\n");
    for (const struct command *command = commands; command->name; command++) {
        printf("        '%s:", command->name);
        zsh_text(command->help, ":\\");
        printf("'\n");
    }
    printf("        'help:more about a command'\n    )\n    if ((CURRENT == 2)); then\n"
           "        _describe -t commands command commands\n        return\n    fi\n    local command=$words[2]\n"
           "    shift words\n    ((CURRENT--))\n    case $command in\n"
           "    help) _describe -t commands command commands ;;\n");
    for (const struct command *command = commands; command->name; command++) {
        const char *operands = command->arguments->operands;
        printf("    %s)\n        _arguments -S", command->name);
        each_option(command, zsh_option);
        if (operands) {
            printf(" \\\n            '%s", is_any_of(operands, ARGUMENT_COMMAND) ? "*::" : "*");
            zsh_values(is_any_of(operands, ARGUMENT_COMMAND) ? "program" : "operand", operands);
            putchar('\'');
        }
        printf("\n        ;;\n");
    }
    printf(
        "    esac\n}\nif [[ $funcstack[1] == _cufence ]]; then\n    _cufence \"$@\"\nelse\n    compdef _cufence cufence\nfi\n");
}

/* ---- fish ---- */

static void fish_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
}

static void fish_option(const struct command *command, const struct argument *argument)
{
    printf("complete -c cufence -n '__fish_seen_subcommand_from %s' -l %s", command->name, argument->name);
    if (is_any_of(argument->values, ARGUMENT_FILE) || is_any_of(argument->values, ARGUMENT_FOLDER))
        printf(" -r -F");
    else if (argument->values)
        printf(" -x -a '%s'", argument->values);
    else if (argument->example)
        printf(" -x");
    printf(" -d '");
    fish_text(argument->help);
    printf("'\n");
}

static void fish_operands(const struct command *command)
{
    const char *operands = command->arguments->operands;
    if (!operands)
        return;
    printf("complete -c cufence -n '__fish_seen_subcommand_from %s'", command->name);
    if (is_list(operands))
        printf(" -a '%s'\n", operands);
    else if (is_any_of(operands, ARGUMENT_COMMAND))
        printf(" -F -a '(__fish_complete_subcommand)'\n");
    else
        printf(" -F\n");
}

static void put_fish(void)
{
    printf("# fish completion of cufence, made by `cufence completion fish`\ncomplete -c cufence -f\n"
           "complete -c cufence -n __fish_use_subcommand -l version -d 'print the version'\n"
           "complete -c cufence -n __fish_use_subcommand -l help -d 'list the commands'\n"
           "complete -c cufence -n __fish_use_subcommand -a help -d 'more about a command'\n");
    for (const struct command *command = commands; command->name; command++) {
        printf("complete -c cufence -n __fish_use_subcommand -a %s -d '", command->name);
        fish_text(command->help);
        printf("'\n");
        printf("complete -c cufence -n '__fish_seen_subcommand_from help' -a %s\n", command->name);
        each_option(command, fish_option);
        fish_operands(command);
    }
}

/* ---- the command ---- */

const struct arguments completion_arguments = {"completion", NULL, 0, "bash zsh fish", 0, 0};

int cli_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    int option;
    while ((option = arguments_next(&completion_arguments, argc, argv)) != ARGUMENTS_END)
        return option == ARGUMENTS_HELP ? usage() : CLI_USAGE;
    if (optind == argc)
        return arguments_complain("completion", CLI_USAGE, "no shell given; use bash, zsh or fish");
    if (optind + 1 < argc)
        return arguments_surplus("completion", argv[optind + 1]);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(argv[optind], shells[i].name) == 0) {
            shells[i].put();
            return 0;
        }
    }
    return arguments_complain("completion", CLI_USAGE, "unknown shell '%s'; use bash, zsh or fish", argv[optind]);
}
