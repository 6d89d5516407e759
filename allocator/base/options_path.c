/* File names with %p, %r and %h in them, and the rank that these may contain. */
#include "options.h"
#include "env.h"
#include "error.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *rank_name(void)
{
    const char *rank = env_get("RANK");
    return rank ? rank : env_get("LOCAL_RANK");
}

cufence_status options_expand_path(const char *pattern, char *out, size_t size)
{
    char process[24], host[256] = "", letter[2] = "";
    size_t used = 0;

    snprintf(process, sizeof process, "%ld", (long)getpid());
    for (const char *at = pattern; *at; at++) {
        const char *piece = letter;
        letter[0] = *at;
        if (*at == '%') {
            switch (*++at) {
            case 'p':
                piece = process;
                break;
            case 'r':
                piece = rank_name() ?: "0";
                break;
            case 'h':
                if (gethostname(host, sizeof host - 1))
                    snprintf(host, sizeof host, "localhost");
                piece = host;
                break;
            case '%':
                break;
            default:
                return error_set(CUFENCE_ERROR_OPTION,
                                 "file name '%.200s': '%s' after %% is not allowed; use %%p, %%r, %%h or %%%%", pattern,
                                 *at ? (char[]){iscntrl((unsigned char)*at) ? '?' : *at, '\0'} : "nothing");
            }
        }
        size_t length = strlen(piece);
        if (length >= size - used)
            return error_set(CUFENCE_ERROR_OVERFLOW, "file name '%.200s' is longer than %zu bytes when expanded", pattern,
                             size - 1);
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return CUFENCE_OK;
}

static int rank_in(const char *variable)
{
    const char *text = env_get(variable);
    char *end = NULL;
    long rank = text && *text ? strtol(text, &end, 10) : -1;
    return end && !*end && rank >= 0 && rank <= INT_MAX ? (int)rank : -1;
}

int options_rank(void)
{
    int rank = rank_in("RANK");
    return rank >= 0 ? rank : rank_in("LOCAL_RANK");
}
