/* Which driver is opened, and what an old one lacks. */
#include "child.h"

static void lacks(const char *function)
{
    setenv("CUFENCE_DRIVER", CUFENCE_LACKING_DRIVER, 1);
    setenv("CUFENCE_TEST_LACKS", function, 1);
}

STORY(a_required_function_is_missing)
{
    lacks("cuMemSetAccess");
    CHECK(cufence_init(NULL) == CUFENCE_ERROR_DRIVER_TOO_OLD);
    CHECK(strstr(cufence_error_detail(), "cuMemSetAccess") && strstr(cufence_error_detail(), "CUDA 10.2"));
    lacks("cuStreamGetCaptureInfo");
    CHECK(cufence_init(NULL) == CUFENCE_ERROR_DRIVER_TOO_OLD);
    CHECK(strstr(cufence_error_detail(), "cuStreamGetCaptureInfo") && strstr(cufence_error_detail(), "CUDA 11.3"));
    lacks("");
    CHECK_OK(cufence_init(NULL));
}

/* It works without: a fault is caught, and only not explained. */
STORY_OF(an_optional_function_is_missing, 0, "cannot arm core dumps; CUDA 12.1 and later can", NULL)
{
    void *pointer = NULL;
    lacks("cuCoredumpSetAttributeGlobal");
    CHECK_OK(cufence_init(NULL));
    CHECK_OK(cufence_malloc(&pointer, 100, 0, NULL));
}

STORY(no_library)
{
    setenv("CUFENCE_DRIVER", "/nowhere/libcuda.so", 1);
    CHECK(cufence_init(NULL) == CUFENCE_ERROR_DRIVER_NOT_FOUND);
    CHECK(strstr(cufence_error_detail(), "/nowhere/libcuda.so") != NULL);
}

STORY(another_library)
{
    setenv("CUFENCE_DRIVER", "libz.so.1", 1);
    CHECK(cufence_init(NULL) == CUFENCE_ERROR_DRIVER_NOT_FOUND);
    CHECK(strstr(cufence_error_detail(), "libz.so.1") != NULL);
}

STORY(a_device_that_fails_to_start)
{
    setenv("CUFENCE_SIM", "devices=99", 1);
    CHECK(cufence_init(NULL) == CUFENCE_ERROR_DRIVER);
    CHECK(strstr(cufence_error_detail(), "cuInit: CUDA_ERROR_INVALID_VALUE") != NULL);
}

TEST_CONCURRENTLY
