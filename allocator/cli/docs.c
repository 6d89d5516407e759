/* `cufence docs`: lists the pages that are installed beside the program, and prints one. Messages name pages like this. */
#include "arguments.h"
#include "cli.h"
#include "program.h"
#include "base/files.h"
#include "base/text.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define complain(status, ...) arguments_complain("docs", status, __VA_ARGS__)

enum { LONGEST = 256 };

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

/* Finds the pages of the current folder and those of its guides, each sorted by name. */
static void find_pages(glob_t *pages)
{
    *pages = (glob_t){0};
    glob("*.md", 0, NULL, pages);
    glob("guide/*.md", GLOB_APPEND, NULL, pages);
}

/* Copies the page's name, without folder and ending. */
static void name_of(const char *path, char name[LONGEST])
{
    const char *slash = strchr(path, '/'), *file = slash ? slash + 1 : path;
    snprintf(name, LONGEST, "%.*s", (int)(strlen(file) - strlen(".md")), file);
}

static void list_pages(const glob_t *pages)
{
    for (size_t i = 0; i < pages->gl_pathc; i++) {
        char name[LONGEST], line[LONGEST] = "";
        FILE *page = fopen(pages->gl_pathv[i], "re");
        if (page && fgets(line, sizeof line, page))
            line[strcspn(line, "\n")] = '\0';
        if (page)
            fclose(page);
        name_of(pages->gl_pathv[i], name);
        printf("  %-20s  %s\n", name, line + strspn(line, "# "));
    }
}

static int print_page(const glob_t *pages, const char *sought)
{
    size_t best = SIZE_MAX;
    char name[LONGEST], nearest[LONGEST] = "", block[4096];
    for (size_t i = 0; i < pages->gl_pathc; i++) {
        name_of(pages->gl_pathv[i], name);
        size_t edits = text_slip(sought, strlen(sought), name), got;
        FILE *page = edits ? NULL : fopen(pages->gl_pathv[i], "re");
        if (edits < best) {
            best = edits;
            snprintf(nearest, sizeof nearest, "%s", name);
        }
        if (!page)
            continue;
        while ((got = fread(block, 1, sizeof block, page)) > 0)
            fwrite(block, 1, got, stdout);
        fclose(page);
        return 0;
    }
    if (*nearest)
        return complain(STATUS_USAGE, "no page '%s', did you mean '%s'? `cufence docs` lists all", sought, nearest);
    return complain(STATUS_USAGE, "no page '%s'; `cufence docs` lists all", sought);
}

static int run(int argc, char **argv)
{
    char folder[PATH_MAX];
    int status;
    if (!arguments_read(&docs_command, argc, argv, NULL, &status))
        return status;
    if (!pages_folder(folder) || chdir(folder) != 0)
        return complain(STATUS_FAILED, "no documentation is installed with this program");
    glob_t pages;
    find_pages(&pages);
    if (optind < argc) {
        status = print_page(&pages, argv[optind]);
    } else {
        list_pages(&pages);
        printf("\n`cufence docs NAME` prints one. The files are in %s.\n", folder);
    }
    globfree(&pages);
    return status;
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
