/* A set-uid program that uses cufence does not obey its caller's environment: this test starts a copy of itself as one. */
#define TEST_OWN_MAIN
#include "child.h"

#include "base/files.h"
#include "driver/driver.h"

#include <sys/auxv.h>

#define NOBODY 65534
enum { OBEYS_NOTHING, TAKES_DRIVER, TAKES_OPTIONS, IS_NOT_SECURE = 77 };

/* What the copy does. Without a variable it looks for the driver of the machine, which may or may not be there. */
static int as_setuid_program(void)
{
    if (!getauxval(AT_SECURE))
        return IS_NOT_SECURE;
    cufence_status status = cufence_init(NULL);
    return status == CUFENCE_ERROR_OPTION ? TAKES_OPTIONS : driver && driver->is_sim ? TAKES_DRIVER : OBEYS_NOTHING;
}

static char copy[] = "/tmp/cufence-secure-XXXXXX";

static int run_copy(const char *variable, const char *value)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {copy, NULL};
        clearenv();
        setenv("CUFENCE_SETUID_TEST", "1", 1);
        setenv(variable, value, 1);
        if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
            _exit(99);
        execv(copy, words);
        _exit(98);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_copy(void)
{
    char bytes[65536];
    ssize_t got;
    int from = open("/proc/self/exe", O_RDONLY), to = mkstemp(copy);
    assert_true(from >= 0 && to >= 0);
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        assert_true(files_write(to, bytes, (size_t)got));
    assert_int_equal(fchmod(to, 04755), 0);
    close(from);
    close(to);
}

TEST(a_setuid_program_obeys_no_variable)
{
    if (geteuid() != 0)
        skip();
    make_copy();
    int by_driver = run_copy("CUFENCE_DRIVER", CUFENCE_SIM_LIBRARY), by_options = run_copy("CUFENCE_OPTIONS", "no_such=1");
    unlink(copy);
    if (by_driver == IS_NOT_SECURE)
        skip(); /* on this file system, or in this container, no program gains rights */
    assert_int_equal(by_driver, OBEYS_NOTHING);
    assert_int_equal(by_options, OBEYS_NOTHING);
}

int main(int argc, char **argv)
{
    if (getenv("CUFENCE_SETUID_TEST"))
        return as_setuid_program();
    return test_run(argc, argv);
}
