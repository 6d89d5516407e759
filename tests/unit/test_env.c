/* Which variables of the environment cufence sees. */
#include "support/test.h"

#include "base/env.h"
#include "base/options.h"

#include <sys/auxv.h>

static unsigned long is_secure;

unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
    assert_int_equal(type, AT_SECURE);
    return is_secure;
}

TEST(a_program_with_more_rights_than_its_caller_obeys_no_variable)
{
    char path[64];
    setenv("RANK", "3", 1);
    assert_string_equal(env_get("RANK"), "3");
    assert_int_equal(options_rank(), 3);
    assert_null(env_get("CUFENCE_NO_SUCH"));
    is_secure = 1;
    assert_null(env_get("RANK"));
    assert_int_equal(options_rank(), -1);
    assert_int_equal(options_expand_path("a%r", path, sizeof path), CUFENCE_OK);
    assert_string_equal(path, "a0");
    is_secure = 0;
}
