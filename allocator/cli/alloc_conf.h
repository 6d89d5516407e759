/*
 * The text of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF: "key:value,key:[value,value]". Pure. This is the only reader of
 * it: the start-up hook behind backend:cufence executes `cufence run`.
 *
 * PyTorch ignores every blank in it, and its lists do not nest (c10/core/AllocatorConfig.h, ConfigTokenizer). Older versions
 * split it at blanks when they look for the back end at load time, so what is written here has none.
 */
#pragma once

#include <cufence.h>

#define ALLOC_CONF_ASKED "cufence" /* the back end by which a variable asks for cufence */

/* The two variables; options in the second one win. PyTorch before 2.9 reads the second only, 2.9 and 2.10 prefer the first,
 * later ones prefer the second again. */
enum { ALLOC_CONF_GENERAL, ALLOC_CONF_CUDA, ALLOC_CONFS };
extern const char *const alloc_conf_names[ALLOC_CONFS];

struct alloc_conf {
    char *text;    /* the user's settings behind backend:cudaMallocAsync */
    char *options; /* the entries cufence_KEY:VALUE as "KEY=VALUE,KEY=VALUE", "" without any */
    char *backend; /* the last back end asked for; NULL if none */
};

/*
 * Rewrites `text` for cufence (NULL is the same as ""): every `backend` entry gives way to backend:cudaMallocAsync, which
 * comes first; entries that begin with cufence_ become options; empty entries are dropped; the others keep their order.
 * Malformed entries (a list without an end, a key without a value) are kept too, so that PyTorch complains about them. The
 * caller frees *conf with alloc_conf_free(). `name` is the variable's name, for messages. Errors: OPTION (cufence_KEY without a
 * value, a second back end beside cufence), OUT_OF_MEMORY (the host's); *conf is empty then.
 */
cufence_status alloc_conf_rewrite(const char *text, const char *name, struct alloc_conf *conf);

/*
 * Rewrites the texts of both variables, which `lookup` finds. One that is not set (NULL) gets the other's text without options.
 * The caller frees each of `confs` with alloc_conf_free().
 * Errors: as above, and OPTION if one asks for cufence and the other for another back end; both are empty then.
 */
cufence_status alloc_conf_rewrite_both(const char *(*lookup)(const char *name), struct alloc_conf confs[ALLOC_CONFS]);

/* Returns the name of a variable that says backend:cufence, NULL if neither does. */
const char *alloc_conf_asking(const struct alloc_conf confs[ALLOC_CONFS]);

void alloc_conf_free(struct alloc_conf *conf);
