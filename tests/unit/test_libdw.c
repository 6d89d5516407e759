/* Sessions of libdw, whose files change meanwhile. */
#include "support/test.h"

#include "stacks/libdw.h"

#include <dlfcn.h>
#include <link.h>

static char copy[] = "/tmp/cufence-test-XXXXXX";

/* Returns where the loaded part of the copy ends in its file, with the rest of the page. */
static int find_end(struct dl_phdr_info *info, size_t size, void *end)
{
    if (strcmp(info->dlpi_name, copy) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (off_t)(segment->p_offset + segment->p_filesz) > *(off_t *)end)
            *(off_t *)end = (off_t)(segment->p_offset + segment->p_filesz);
    }
    return 1;
}

static void look_at(const struct libdw *libdw, void *function)
{
    char name[256] = "", file[512] = "";
    int line = 0;
    struct libdw_session *session = libdw_begin(libdw);
    if (!session)
        _exit(2);
    libdw_name(session, (uint64_t)(uintptr_t)function, name, sizeof name);
    libdw_line(session, (uint64_t)(uintptr_t)function, 0, file, sizeof file, &line);
    libdw_end(session);
}

static void cut_while_it_is_used(const struct libdw *libdw)
{
    off_t end = 0, page = (off_t)sysconf(_SC_PAGESIZE);
    void *library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    void *first = library ? dlsym(library, "cuInit") : NULL, *second = library ? dlsym(library, "cuGraphLaunch") : NULL;
    if (!first || !second)
        _exit(3);
    for (int i = 0; i < 2; i++) /* libdw loads libraries of its own the first time */
        look_at(libdw, first);
    dl_iterate_phdr(find_end, &end);
    if (!end || truncate(copy, (end + page - 1) / page * page) != 0)
        _exit(4);
    look_at(libdw, second);
    _exit(0);
}

/* A build overwrites a library in place: what it had behind the code is gone, and touching it would end the process. */
TEST(a_file_that_has_changed_is_opened_again)
{
    char command[2048];
    int status = -1, made = mkstemp(copy);
    const struct libdw *libdw = libdw_open();
    if (!libdw)
        skip();
    assert_true(made >= 0);
    close(made);
    snprintf(command, sizeof command, "cp %s %s", CUFENCE_SIM_LIBRARY, copy);
    assert_int_equal(system(command), 0);
    pid_t pid = fork();
    if (pid == 0)
        cut_while_it_is_used(libdw);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(copy);
    assert_int_equal(status, 0);
}
