
#include "report.h"
#include "frames.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Escapes characters that would end a property (`special`) or a line. */
static void put_escaped(FILE *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '%' || iscntrl((unsigned char)*text) || strchr(special, *text))
            fprintf(out, "%%%02X", (unsigned char)*text);
        else
            putc(*text, out);
    }
}

static const char *without(const char *path, const char *folder)
{
    size_t length = folder ? strlen(folder) : 0;
    return length && !strncmp(path, folder, length) && path[length] == '/' ? path + length + 1 : path;
}

char *finding_annotation(const struct finding *finding, const char *folder)
{
    const struct evidence_stop *stop = &finding->where.stop;
    const struct stack_frame *caller = finding->called.count ? frames_own(finding->called.frames, finding->called.count) : NULL;
    const char *file = finding->where.is_known ? stop->file : caller && caller->file[0] ? caller->file : NULL;
    int line = finding->where.is_known ? stop->line : caller ? caller->line : 0;
    char kernel[256] = "", *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    if (finding->where.is_known)
        finding_kernel(stop, kernel, sizeof kernel);
    fputs("::error ", out);
    if (file) {
        fputs("file=", out);
        put_escaped(out, without(file, folder), ":,");
        putc(',', out);
    }
    if (file && line > 0)
        fprintf(out, "line=%d,", line);
    fputs("title=cufence%3A ", out);
    put_escaped(out, finding->kind, ":,");
    fputs("::", out);
    put_escaped(out, finding->headline, "");
    if (kernel[0]) {
        fputs(", in ", out);
        put_escaped(out, kernel, "");
    }
    putc('\n', out);
    if (fclose(out))
        return NULL;
    text_make_lines_plain(text); /* it has the one line end */
    return text;
}
