#include "lens.h"

#include "base/error.h"
#ifdef CUFENCE_HAS_LENS
#include "lens/lens.h"
#endif

/* The option that asks for it, NULL if none does. */
static const char *asking(const struct options *options)
{
    return options->values[0]        ? "values"
           : options->nan != NAN_OFF ? "nan"
           : options->trace[0]       ? "trace"
           : options->save_values[0] ? "save_values"
                                     : NULL;
}

#ifdef CUFENCE_HAS_LENS

cufence_status api_lens_check(const struct options *options)
{
    return lens_check(options);
}

cufence_status api_lens_open(const struct options *options)
{
    return asking(options) ? lens_open(options) : lens_check(options);
}

#else

cufence_status api_lens_check(const struct options *options)
{
    const char *option = asking(options);
    return option
               ? error_set(CUFENCE_ERROR_UNSUPPORTED, "%s: this cufence was built without its lens (CUFENCE_LENS=OFF)", option)
               : CUFENCE_OK;
}

cufence_status api_lens_open(const struct options *options)
{
    return api_lens_check(options);
}

#endif
