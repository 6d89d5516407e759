/* `cufence completion`: what a shell needs to complete a command line. Its script asks the program itself, which knows. */
#include "cli.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 128 };

/* ---- what may stand there ---- */

/* A word of `length` bytes that the last one of the line can become; help: up to its first semicolon. */
static void offer(const char *last, const char *before, const char *word, size_t length, const char *help)
{
    char text[LONGEST];
    snprintf(text, sizeof text, "%s%.*s", before, (int)length, word);
    if (!strncmp(text, last, strlen(last)))
        printf("%s%s%.*s\n", text, help ? "\t" : "", help ? (int)strcspn(help, ";") : 0, help ? help : "");
}

/* `before` stands in front of each value: "--uaf=". */
static void offer_values(const char *last, const char *before, const char *values)
{
    if (values && (!strcmp(values, ARGUMENT_FILE) || !strcmp(values, ARGUMENT_FOLDER))) {
        puts(values);
        return;
    }
    for (; values && *values; values += strcspn(values, " "), values += strspn(values, " |"))
        offer(last, before, values, strcspn(values, " "), NULL);
}

/* As `values` of an argument, with " | " between words. */
static const char *row_values(const struct option_row *row)
{
    switch (row->type) {
    case OPTION_CHOICE:
    case OPTION_SWITCH:
        return row->allowed;
    case OPTION_ALIGN:
        return "auto 1 2 4 8 16 32 64 128 256 512";
    case OPTION_FILL:
        return "off nan";
    case OPTION_PATH:
        return strcasestr(row->allowed, "folder") ? ARGUMENT_FOLDER : ARGUMENT_FILE;
    default:
        return NULL;
    }
}

/* Gets option `i` of a sub-command: its own, the library's, --help. Returns 0 behind the last. */
static int option_at(const struct command *command, size_t i, struct argument *option)
{
    size_t rows;
    const struct option_row *table = options_table(&rows);
    size_t count = command->count + (command->take_row ? rows : 0);
    *option = (struct argument){.name = "help", .help = "say what it does"};
    if (i < command->count) {
        *option = command->arguments[i];
    } else if (i < count) {
        const struct option_row *row = &table[i - command->count];
        *option = (struct argument){row->name, row->allowed, row->help, .values = row_values(row)};
    }
    return i <= count;
}

static void offer_options(const struct command *command, const char *last)
{
    struct argument option;
    for (size_t i = 0; option_at(command, i, &option); i++)
        if (i < command->count || !arguments_has(command, option.name))
            offer(last, "--", option.name, strlen(option.name), option.help);
}

/* Finds the option that a word names: "--uaf", "--uaf=strict". */
static int find_option(const struct command *command, const char *word, struct argument *option)
{
    size_t length = strcspn(word, "=");
    for (size_t i = 0; option_at(command, i, option); i++)
        if (length == strlen(option->name) + 2 && !strncmp(word, "--", 2) && !strncmp(word + 2, option->name, length - 2))
            return 1;
    return 0;
}

static void offer_commands(const char *last)
{
    for (const struct command *const *command = commands; *command; command++)
        offer(last, "", (*command)->name, strlen((*command)->name), (*command)->help);
}

/* ---- the line ---- */

/* How the words before the last one are understood. */
struct line {
    int program;            /* the index of the program, 0: not yet there */
    int is_ended;           /* the options are */
    int is_value;           /* the last word is that of `option` */
    struct argument option; /* the last one with a name that is known */
};

static void read_word(struct line *line, const struct command *command, const char *word, int index)
{
    if (!strcmp(word, "=")) { /* bash takes --key=value for three words */
        line->is_value = 1;
    } else if (line->is_value) {
        line->is_value = 0;
    } else if (!strcmp(word, "--")) {
        line->is_ended = 1;
        line->program = command->is_operand_the_end ? index + 1 : 0;
    } else if (*word != '-' && command->is_operand_the_end) {
        line->program = index;
    } else if (*word == '-') {
        int is_known = find_option(command, word, &line->option);
        line->is_value = (!is_known || line->option.value) && !strchr(word, '=');
    }
}

int completion_tell(int count, char **words)
{
    struct line line = {0};
    char before[LONGEST];
    const char *last = count ? words[count - 1] : "";
    const struct command *command = count > 1 ? command_find(words[0]) : NULL;
    if (count <= 1 || !strcmp(words[0], "help"))
        offer_commands(last);
    if (count <= 1) {
        offer(last, "", "help", 4, "more about a command");
        offer(last, "--", "help", 4, "list the commands");
        offer(last, "--", "version", 7, "print the version");
    }
    for (int i = 1; command && i < count - 1 && !line.program; i++)
        read_word(&line, command, words[i], i);
    if (!command)
        return 0;
    if (!strcmp(last, "=")) {
        line.is_value = 1;
        last = "";
    }
    snprintf(before, sizeof before, "%.*s", (int)strcspn(last, "=") + 1, last);
    int is_program = line.program || (command->is_operand_the_end && *last != '-' && !line.is_value);
    if (is_program)
        printf("COMMAND %d\n", line.program ? line.program + 1 : count);
    else if (line.is_value)
        offer_values(last, "", line.option.values);
    else if (*last == '-' && !line.is_ended && strchr(last, '=') && find_option(command, last, &line.option))
        offer_values(last, before, line.option.values);
    else if (*last == '-' && !line.is_ended)
        offer_options(command, last);
    else
        offer_values(last, "", command->values);
    return 0;
}

/* ---- the scripts ---- */

static const char bash[] =
    "# bash completion of cufence, made by `cufence completion bash`\n"
    "_cufence() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]#=} found\n"
    "    mapfile -t found < <(\"${COMP_WORDS[0]}\" complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "    COMPREPLY=()\n"
    "    case ${found[0]} in\n"
    "    FILE) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
    "    FOLDER) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
    "    COMMAND*)\n"
    "        if declare -F _command_offset >/dev/null; then\n"
    "            _command_offset \"${found[0]#* }\"\n"
    "        else\n"
    "            mapfile -t COMPREPLY < <(compgen -c -- \"$current\"; compgen -f -- \"$current\")\n"
    "        fi ;;\n"
    "    *) COMPREPLY=(\"${found[@]%%$'\\t'*}\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -o filenames -F _cufence cufence\n";

static const char zsh[] =
    "#compdef cufence\n"
    "# zsh completion of cufence, made by `cufence completion zsh`\n"
    "_cufence() {\n"
    "    local -a found=(\"${(@f)$($words[1] complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    case $found[1] in\n"
    "    FILE) compset -P '--*='; _files ;;\n"
    "    FOLDER) compset -P '--*='; _files -/ ;;\n"
    "    COMMAND*) shift ${found[1]#* } words; ((CURRENT -= ${found[1]#* })); _normal ;;\n"
    "    ?*) found=(\"${(@)found//:/\\\\:}\"); found=(\"${(@)found//$'\\t'/:}\"); _describe cufence found ;;\n"
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _cufence ]]; then\n"
    "    _cufence \"$@\"\n"
    "else\n"
    "    compdef _cufence cufence\n"
    "fi\n";

static const char fish[] = "# fish completion of cufence, made by `cufence completion fish`\n"
                           "function __cufence_complete\n"
                           "    set -l words (commandline -opc) (commandline -ct)\n"
                           "    type -q $words[1]; or return\n"
                           "    set -l before (string match -r -- '^--[^=]*=' $words[-1])\n"
                           "    set -l token (string replace -r -- '^--[^=]*=' '' $words[-1])\n"
                           "    set -l found ($words[1] complete $words[2..-1] 2>/dev/null)\n"
                           "    switch \"$found[1]\"\n"
                           "        case FILE\n"
                           "            printf \"$before%s\\n\" (__fish_complete_path $token)\n"
                           "        case FOLDER\n"
                           "            printf \"$before%s\\n\" (__fish_complete_directories $token)\n"
                           "        case 'COMMAND *'\n"
                           "            __fish_complete_subcommand --fcs-skip=(string replace 'COMMAND ' '' $found[1])\n"
                           "        case '*'\n"
                           "            printf '%s\\n' $found\n"
                           "    end\n"
                           "end\n"
                           "complete -c cufence -f -a '(__cufence_complete)'\n";

/* ---- the command ---- */

static int run(int argc, char **argv)
{
    static const struct {
        const char *name, *script;
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    int status;
    if (!arguments_read(&completion_command, argc, argv, NULL, &status))
        return status;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(argv[optind], shells[i].name) == 0) {
            fputs(shells[i].script, stdout);
            return 0;
        }
    }
    return arguments_complain("completion", STATUS_USAGE, "unknown shell '%s'; use bash, zsh or fish", argv[optind]);
}

const struct command completion_command = {
    .name = "completion",
    .help = "print completions for bash, zsh or fish",
    .run = run,
    .operands = "bash|zsh|fish",
    .values = "bash zsh fish",
    .least = 1,
    .most = 1,
    .missing = "no shell given; use bash, zsh or fish",
    .about = "Prints a script that completes commands, options and their values.",
    .examples = "  bash  eval \"$(cufence completion bash)\" in ~/.bashrc\n"
                "  zsh   cufence completion zsh > FOLDER/_cufence, with FOLDER in fpath, before\n"
                "        compinit\n"
                "  fish  cufence completion fish > ~/.config/fish/completions/cufence.fish\n\n"
                "Example: eval \"$(cufence completion bash)\"\n",
};
