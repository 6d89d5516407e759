/*
 * Names that earlier versions had: what serves instead is told where they are used. Any thread.
 */
#pragma once

#include <stddef.h>

enum gone { GONE_OPTION, GONE_COMMAND, GONE_FLAG /* "hunt --deep" */ };

/* What to do instead; NULL if `name`, which needs no NUL, was never one. */
const char *gone_instead(enum gone what, const char *name, size_t length);
