/*
 * The text of PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF: "key:value,key:[value,value]". Pure.
 *
 * PyTorch ignores every blank in it (c10/core/AllocatorConfig.h, ConfigTokenizer), but older versions split it at blanks when
 * they look for the back end at load time, so what is written here has none.
 */
#ifndef CUFENCE_CLI_ALLOC_CONF_H
#define CUFENCE_CLI_ALLOC_CONF_H

#include <cufence.h>

struct alloc_conf {
    char *text;    /* the user's settings behind backend:cudaMallocAsync */
    char *options; /* the entries cufence_KEY:VALUE as "KEY=VALUE,KEY=VALUE", "" without any */
    char *backend; /* the back end that was asked for, the last one of several; NULL if none was */
};

/*
 * Rewrites `text` for cufence (NULL is the same as ""): every `backend` entry gives way to backend:cudaMallocAsync, which
 * comes first; entries that begin with cufence_ become options; empty entries go; the others stay in their order. What is not
 * well-formed (a list without an end, a key without a value) stays too, for PyTorch to complain about.
 * The caller gives *conf to alloc_conf_free(). Errors: OUT_OF_MEMORY (the host's); *conf is empty then.
 */
cufence_status alloc_conf_rewrite(const char *text, struct alloc_conf *conf);

void alloc_conf_free(struct alloc_conf *conf);

#endif
