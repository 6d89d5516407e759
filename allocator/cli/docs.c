/* `cufence docs`: lists the pages that are installed beside the program, and prints one. Messages name pages like this. */
#include "arguments.h"
#include "cli.h"
#include "installed.h"
#include "help.h"
#include "base/installation.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define complain(status, ...) arguments_complain("docs", status, __VA_ARGS__)

enum { LONGEST = 256 };
static const char suffix[] = ".md";

/* The folder of the pages: in the package, in the prefix, in a checkout. */
static int pages_folder(char folder[PATH_MAX])
{
    static const char *const folders[] = {"../docs/", "../share/doc/cufence/", "../../docs/"};
    char program[PATH_MAX];
    if (!installed_program(program) ||
        !installation_find(program, folders, sizeof folders / sizeof *folders, "index.md", folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    return 1;
}

static int is_page(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > sizeof suffix - 1 && !strcmp(entry->d_name + length - (sizeof suffix - 1), suffix);
}

static int name_length(const char *file)
{
    return (int)(strlen(file) - (sizeof suffix - 1));
}

static FILE *page_open(const char *folder, const char *below, const char *file)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s%s", folder, below, file) < (int)sizeof path ? fopen(path, "re") : NULL;
}

static void print_title(const char *folder, const char *below, const char *file)
{
    char line[LONGEST] = "";
    FILE *page = page_open(folder, below, file);
    if (page) {
        if (fgets(line, sizeof line, page))
            line[strcspn(line, "\n")] = '\0';
        fclose(page);
    }
    printf("  %-20.*s  %s\n", name_length(file), file, line + strspn(line, "# "));
}

/* Calls for each page below a folder, sorted by name, until `each` returns non-zero, which is returned. */
typedef int page_function(const char *folder, const char *below, const char *file, void *data);
static int each_page_below(const char *folder, const char *below, page_function *each, void *data)
{
    struct dirent **entries;
    char path[PATH_MAX];
    int result = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, below) >= (int)sizeof path)
        return 0;
    int count = scandir(path, &entries, is_page, alphasort);
    for (int i = 0; i < count; i++) {
        if (!result)
            result = each(folder, below, entries[i]->d_name, data);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return result;
}

static int each_page(const char *folder, page_function *each, void *data)
{
    int result = each_page_below(folder, "", each, data);
    return result ? result : each_page_below(folder, "guide/", each, data);
}

static int list_page(const char *folder, const char *below, const char *file, void *data)
{
    (void)data;
    print_title(folder, below, file);
    return 0;
}

struct sought {
    const char *name;
    char nearest[LONGEST];
    size_t edits; /* of the nearest one's name */
};

/* 1: printed. */
static int print_if_sought(const char *folder, const char *below, const char *file, void *data)
{
    struct sought *sought = data;
    char name[LONGEST], block[4096];
    snprintf(name, sizeof name, "%.*s", name_length(file), file);
    size_t edits = text_slip(sought->name, strlen(sought->name), name), got;
    if (edits < sought->edits) {
        sought->edits = edits;
        snprintf(sought->nearest, sizeof sought->nearest, "%s", name);
    }
    FILE *page = edits ? NULL : page_open(folder, below, file);
    if (!page)
        return 0;
    while ((got = fread(block, 1, sizeof block, page)) > 0)
        fwrite(block, 1, got, stdout);
    fclose(page);
    return 1;
}

static int run(int argc, char **argv)
{
    char folder[PATH_MAX];
    int status;
    if (!arguments_read(&docs_command, argc, argv, NULL, &status))
        return status;
    if (!pages_folder(folder))
        return complain(STATUS_FAILED, "no documentation is installed with this program");
    if (optind == argc) {
        each_page(folder, list_page, NULL);
        printf("\n`cufence docs NAME` prints one. The files are in %s.\n", folder);
        return 0;
    }
    struct sought sought = {argv[optind], "", SIZE_MAX};
    if (each_page(folder, print_if_sought, &sought))
        return 0;
    if (*sought.nearest)
        return complain(STATUS_USAGE, "no page '%s', did you mean '%s'? `cufence docs` lists all", sought.name, sought.nearest);
    return complain(STATUS_USAGE, "no page '%s'; `cufence docs` lists all", sought.name);
}

const struct command docs_command = {
    .name = "docs",
    .help = "print a page of the documentation, or list all pages",
    .run = run,
    .operands = "[NAME]",
    .most = 1,
    .about = "Prints a page of the documentation, or the names and titles of all pages.",
    .examples = "Example: cufence docs report | less\n",
};
