/* Whether a program can run under `cufence run`: found files, crafted ELF files and scripts. */
#include "support/folder.h"

#include <elf.h>

#include "cli/program.h"
#include "base/error.h"

static const char *make_file(const char *name, mode_t mode, const void *content, size_t size)
{
    const char *path = put_file(name, content, size);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static const char *make_script(const char *name, const char *text)
{
    return make_file(name, 0755, text, strlen(text));
}

static void expect_judgement(const char *path, int status, const char *word)
{
    int verdict = program_judge(path);
    if (verdict != status || (word && !strstr(error_detail(), word)))
        print_error("%s: %d, %s\n", path, verdict, error_detail());
    assert_int_equal(verdict, status);
    if (word)
        assert_non_null(strstr(error_detail(), word));
}

/* ---- finding ---- */

TEST(a_program_is_found_as_a_shell_does)
{
    char found[PATH_MAX], path[2 * PATH_MAX], expected[PATH_MAX];
    make_script("there", "#!/bin/sh\n");
    snprintf(path, sizeof path, "/nonexistent:%s:/bin", folder);
    assert_int_equal(program_find("there", path, found), PROGRAM_FITS);
    assert_string_equal(found, in_folder("there"));
    assert_int_equal(program_find("sh", path, found), PROGRAM_FITS);
    assert_string_equal(found, "/bin/sh");
    assert_int_equal(program_find("sh", NULL, found), PROGRAM_FITS);
    assert_int_equal(program_find("/bin/sh", "", found), PROGRAM_FITS);
    assert_string_equal(found, "/bin/sh");

    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    snprintf(expected, sizeof expected, "./there");
    assert_int_equal(program_find("there", "/bin:", found), PROGRAM_FITS); /* an empty entry is the working folder */
    assert_string_equal(found, expected);
    assert_int_equal(program_find("./there", "/bin", found), PROGRAM_FITS);
    assert_int_equal(program_find("there", "/bin", found), PROGRAM_MISSING);
    assert_int_equal(chdir(before), 0);
}

TEST(a_program_that_is_missing_is_named)
{
    char found[PATH_MAX], lengthy[PATH_MAX + 8];
    assert_int_equal(program_find("no-such-program", "/bin:/usr/bin", found), PROGRAM_MISSING);
    assert_string_equal(error_detail(), "there is no program no-such-program in the folders of PATH");
    assert_int_equal(program_find("/no/such/program", "/bin", found), PROGRAM_MISSING);
    assert_string_equal(error_detail(), "there is no /no/such/program");
    assert_int_equal(program_find("/bin/sh/program", "/bin", found), PROGRAM_MISSING);
    assert_int_equal(program_find("", "/bin", found), PROGRAM_MISSING);
    memset(lengthy, '/', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(program_find(lengthy, "/bin", found), PROGRAM_MISSING);
    assert_non_null(strstr(error_detail(), "bytes; at most 4095"));
}

TEST(what_cannot_be_run_is_named)
{
    char found[PATH_MAX], message[2 * PATH_MAX];
    assert_int_equal(program_find(folder, "/bin", found), PROGRAM_UNFIT);
    snprintf(message, sizeof message, "%s is a directory", folder);
    assert_string_equal(error_detail(), message);
    assert_int_equal(program_find("/dev/null", "/bin", found), PROGRAM_UNFIT);
    make_file("data.py", 0644, "x", 1);
    assert_int_equal(program_find(in_folder("data.py"), "/bin", found), PROGRAM_UNFIT);
    assert_non_null(strstr(error_detail(), "data.py is not executable"));
    assert_int_equal(program_find("data.py", folder, found), PROGRAM_UNFIT);
    assert_non_null(strstr(error_detail(), "data.py is not executable"));
}

/* ---- scripts ---- */

TEST(scripts_are_judged_by_their_interpreter)
{
    char line[2 * PATH_MAX];
    expect_judgement(make_script("good", "#!/bin/sh\n"), PROGRAM_FITS, NULL);
    expect_judgement(make_script("blanks", "#! \t /bin/sh -e\nx"), PROGRAM_FITS, NULL);
    expect_judgement(make_script("short", "#!/bin/sh"), PROGRAM_FITS, NULL);
    expect_judgement(make_script("env", "#!/usr/bin/env python3\n"), PROGRAM_FITS, NULL);
    expect_judgement(make_script("missing", "#!/no/such/python\n"), PROGRAM_UNFIT, "/no/such/python, which does not exist");
    expect_judgement(make_script("dos", "#!/bin/sh\r\n"), PROGRAM_UNFIT, "/bin/sh?, which does not exist (its lines end");
    static const char *const others[] = {"#!\n", "#!   \n", "echo hello\n", "#", ""}; /* execve() refuses them */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect_judgement(make_script("other", others[i]), PROGRAM_FITS, NULL);
    expect_judgement(make_script("folder", "#!/tmp\n"), PROGRAM_UNFIT, "/tmp, which cannot be run");
    snprintf(line, sizeof line, "#!%s/good\n", folder);
    expect_judgement(make_script("chain", line), PROGRAM_FITS, NULL);
    snprintf(line, sizeof line, "#!%s/missing\n", folder);
    expect_judgement(make_script("bad chain", line), PROGRAM_UNFIT, "/no/such/python");
}

TEST(a_first_line_is_as_long_as_the_kernel_reads)
{
    char line[512];
    memset(line, 'x', sizeof line);
    line[0] = '#';
    line[1] = '!';
    line[2] = '/';
    expect_judgement(make_file("endless", 0755, line, sizeof line), PROGRAM_FITS, NULL);
    int length = snprintf(line, sizeof line, "#!/bin/sh ");
    memset(line + length, 'x', sizeof line - (size_t)length);
    expect_judgement(make_file("long argument", 0755, line, sizeof line), PROGRAM_FITS, NULL);
}

TEST(a_circle_of_scripts_ends)
{
    char line[2 * PATH_MAX];
    snprintf(line, sizeof line, "#!%s/circle\n", folder);
    expect_judgement(make_script("circle", line), PROGRAM_FITS, NULL); /* as above */
}

/* ---- ELF ---- */

struct program_file {
    Elf64_Ehdr header;
    Elf64_Phdr program[2];
    char loader[64];
};

/* A dynamically linked program with this machine's usual loader. */
static struct program_file good_program(void)
{
    struct program_file file = {0};
    Elf64_Ehdr own;
    FILE *self = fopen("/proc/self/exe", "r");
    assert_non_null(self);
    assert_int_equal(fread(&own, sizeof own, 1, self), 1);
    fclose(self);
    memcpy(file.header.e_ident, own.e_ident, EI_NIDENT);
    file.header.e_type = ET_DYN;
    file.header.e_machine = own.e_machine;
    file.header.e_phoff = offsetof(struct program_file, program);
    file.header.e_phentsize = sizeof(Elf64_Phdr);
    file.header.e_phnum = 2;
    file.program[0].p_type = PT_LOAD;
    file.program[1].p_type = PT_INTERP;
    file.program[1].p_offset = offsetof(struct program_file, loader);
    snprintf(file.loader, sizeof file.loader, "/bin/sh"); /* any file: only its name and that it is there count */
    file.program[1].p_filesz = strlen(file.loader) + 1;
    return file;
}

static void expect_elf(const struct program_file *file, size_t size, int status, const char *word)
{
    expect_judgement(make_file("elf", 0755, file, size), status, word);
}

TEST(real_programs_fit)
{
    expect_judgement("/proc/self/exe", PROGRAM_FITS, NULL);
    expect_judgement("/bin/sh", PROGRAM_FITS, NULL);
    struct program_file file = good_program();
    expect_elf(&file, sizeof file, PROGRAM_FITS, NULL);
    file.header.e_type = ET_EXEC;
    expect_elf(&file, sizeof file, PROGRAM_FITS, NULL);
}

TEST(programs_without_the_loader_are_refused)
{
    struct program_file file = good_program();
    file.program[1].p_type = PT_NOTE;
    expect_elf(&file, sizeof file, PROGRAM_UNFIT, "is statically linked");
    file = good_program();
    file.program[1].p_filesz = 1 + (size_t)snprintf(file.loader, sizeof file.loader, "/lib/ld-musl-x86_64.so.1");
    expect_elf(&file, sizeof file, PROGRAM_UNFIT, "is linked with musl (its loader is /lib/ld-musl-x86_64.so.1)");
    file.program[1].p_filesz = 1 + (size_t)snprintf(file.loader, sizeof file.loader, "/nix/no-such-loader");
    expect_elf(&file, sizeof file, PROGRAM_UNFIT, "its loader /nix/no-such-loader cannot be found");
}

TEST(programs_of_32_bits_are_refused)
{
    struct program_file file = good_program();
    file.header.e_ident[EI_CLASS] = ELFCLASS32;
    file.header.e_machine = EM_386;
    expect_elf(&file, sizeof(Elf32_Ehdr), PROGRAM_UNFIT, "is a 32-bit program");
}

/* Cut at every byte: execve() says what is wrong. */
TEST(damaged_files_are_left_to_the_kernel)
{
    struct program_file file = good_program();
    for (size_t size = 0; size < offsetof(struct program_file, loader) + file.program[1].p_filesz; size++)
        expect_elf(&file, size, PROGRAM_FITS, NULL);
    file.header.e_phoff = UINT64_MAX - 56;
    expect_elf(&file, sizeof file, PROGRAM_FITS, NULL);
    file = good_program();
    file.program[1].p_offset = UINT64_MAX;
    expect_elf(&file, sizeof file, PROGRAM_FITS, NULL);
}

TEST(no_byte_of_a_header_leads_astray)
{
    for (size_t i = SELFMAG; i < offsetof(struct program_file, loader); i++) {
        struct program_file file = good_program();
        ((unsigned char *)&file)[i] ^= 0xff;
        int verdict = program_judge(make_file("elf", 0755, &file, sizeof file));
        assert_true(verdict == PROGRAM_FITS || verdict == PROGRAM_UNFIT);
    }
}

/* ---- rights ---- */

TEST(programs_that_gain_rights_are_told)
{
    static const struct {
        mode_t mode;
        uid_t owner;
        gid_t group;
        const char *words; /* for root */
    } cases[] = {
        {0755, 0, 0, NULL},  {04755, 0, 0, NULL}, {04755, 1000, 0, "set-uid"}, {02755, 0, 5, "set-gid"},
        {02755, 0, 0, NULL}, {02745, 0, 5, NULL}, /* without the group's x it means mandatory locking */
    };
    if (getuid() != 0 || getgid() != 0)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct program_file file = good_program();
        const char *path = make_file("elf", 0755, &file, sizeof file);
        assert_int_equal(chown(path, cases[i].owner, cases[i].group), 0);
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(program_judge(path), cases[i].words ? PROGRAM_UNFIT : PROGRAM_FITS);
        assert_true(!cases[i].words || strstr(error_detail(), cases[i].words));
    }
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
