/*
 * The lens (lens/), where an option asks for it. A build without it (CUFENCE_LENS=OFF) refuses these options.
 */
#ifndef CUFENCE_API_LENS_H
#define CUFENCE_API_LENS_H

#include "base/options.h"

/* Opens it at the start if need be. Errors: as lens/lens.h says; UNSUPPORTED: this build has none. */
cufence_status api_lens_open(const struct options *options);

/* Whether that would work, for a command that checks options first. Changes nothing that counts. */
cufence_status api_lens_check(const struct options *options);

#endif
