/* PYTORCH_CUDA_ALLOC_CONF as typed by a user. Wrong entries for cufence are refused with a sentence. Otherwise the output
 * has no blanks, begins with the back end, and is unchanged by a second pass; the options go to the option parser, as in
 * `cufence run`. */
#include "fuzz.h"

#include "cli/alloc_conf.h"
#include "base/error.h"
#include "base/options.h"

#include <ctype.h>

#define BEGINNING "backend:cudaMallocAsync"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct alloc_conf conf, again;
    struct options options;
    char *text = text_of(bytes, size);
    if (alloc_conf_rewrite(text, "fuzz", &conf) != CUFENCE_OK) {
        require(strncmp(error_detail(), "fuzz: ", strlen("fuzz: ")) == 0 && !conf.text);
        free(text);
        return 0;
    }
    require(strncmp(conf.text, BEGINNING, strlen(BEGINNING)) == 0 && conf.options);
    for (const char *at = conf.text; *at; at++)
        require(!isspace((unsigned char)*at));
    require(alloc_conf_rewrite(conf.text, "fuzz", &again) == CUFENCE_OK);
    require(strcmp(again.text, conf.text) == 0 && !*again.options && strcmp(again.backend, "cudaMallocAsync") == 0);
    options_default(&options);
    (void)options_parse(&options, conf.options, "fuzz");
    alloc_conf_free(&conf);
    alloc_conf_free(&again);
    free(text);
    return 0;
}
