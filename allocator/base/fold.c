#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define NARROWEST 40     /* below, folding makes nothing better */
#define REPORT_WIDTH 100 /* at which reports break their sentences */
#define DEEPEST 28       /* the last column of a report's table, without "==pid== " */
#define SHALLOWEST 4     /* where a line begins whose first word is too long for its column */
#define RESET "\033[0m"

int fold_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= NARROWEST ? size.ws_col : 0;
}

/* A piece of a line, with its escape sequences. */
struct piece {
    const char *text;
    size_t length;
};

/* Returns the bytes of the next character or escape sequence, and sets *width to the columns that it takes. */
static size_t step(struct piece piece, size_t at, int *width)
{
    size_t end = at + 1;
    *width = 0;
    if (piece.text[at] == '\033') {
        while (end < piece.length && piece.text[end - 1] != 'm')
            end++;
        return end - at;
    }
    *width = 1;
    while (end < piece.length && ((unsigned char)piece.text[end] & 0xc0) == 0x80)
        end++;
    return end - at;
}

static int width_of(struct piece piece)
{
    int total = 0, width;
    for (size_t at = 0; at < piece.length; total += width)
        at += step(piece, at, &width);
    return total;
}

static struct piece rest_of(struct piece piece, size_t from)
{
    return (struct piece){piece.text + from, piece.length - from};
}

/* Returns the bytes of "==4242== ", 0 if the line has none. */
static size_t prefix_of(struct piece line)
{
    int width;
    size_t at = 0;
    while (at < line.length && line.text[at] == '\033')
        at += step(line, at, &width);
    if (line.length < at + 6 || strncmp(line.text + at, "==", 2) != 0)
        return 0;
    at += 2 + strspn(line.text + at + 2, "0123456789");
    if (strncmp(line.text + at, "== ", 3) != 0)
        return 0;
    at += 3;
    return at + 4 <= line.length && !strncmp(line.text + at, RESET, 4) ? at + 4 : at;
}

/* Returns the column at which a folded line goes on: in tables that of the last text behind two blanks or more. */
static int hang_of(struct piece body)
{
    static const char *const heads[] = {"cufence: ", "SUMMARY: ", "  at "};
    int column = 0, hang = 0, blanks = 2, width;
    while (body.length && *body.text == '\033')
        body = rest_of(body, step(body, 0, &width));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (body.length > strlen(heads[i]) && !strncmp(body.text, heads[i], strlen(heads[i])))
            return (int)strlen(heads[i]);
    size_t digits = strspn(body.text, "0123456789");
    if (digits && !strncmp(body.text + digits, ". ", 2)) /* of a numbered list */
        return (int)digits + 2;
    for (size_t at = 0, size; at < body.length && column <= DEEPEST; at += size) {
        size = step(body, at, &width);
        if (width && body.text[at] == ' ') {
            blanks++;
        } else if (width) {
            if (blanks >= 2)
                hang = column;
            blanks = 0;
        }
        column += width;
    }
    return hang;
}

/* Cuts the certainty off the end of a line, and the blanks in front of it. Its length is 0 if there is none. */
static struct piece cut_mark(struct piece *body)
{
    static const char *const marks[] = {"exact", "re-run", "derived", "candidate"};
    size_t end = body->length;
    int is_coloured = end > 4 && !strncmp(body->text + end - 4, RESET, 4);
    end -= is_coloured ? 4 : 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t size = strlen(marks[i]), from = end - size;
        if (end < size + 2 || strncmp(body->text + from, marks[i], size) != 0)
            continue;
        while (is_coloured && from && body->text[from] != '\033')
            from--;
        if (from < 2 || body->text[from - 1] != ' ' || body->text[from - 2] != ' ')
            continue;
        struct piece mark = rest_of(*body, from);
        while (from && body->text[from - 1] == ' ')
            from--;
        body->length = from;
        return mark;
    }
    return (struct piece){0};
}

/* Returns where to break instead of behind a number, which stays with what it counts: "0 NaN". */
static size_t before_count(struct piece body, size_t end)
{
    size_t from = end;
    while (from && strchr("0123456789,", body.text[from - 1]))
        from--;
    size_t word = from;
    while (word && body.text[word - 1] == ' ')
        word--;
    return from < end && word && word < from && body.text[end - 1] != ',' ? word : end;
}

/* Returns the bytes of `body` that fit into `room` columns, up to a blank; the first word is taken even if it doesn't fit.
 * *colour becomes the last escape sequence among them, or empty after a reset. */
static size_t fitting(struct piece body, int room, struct piece *colour)
{
    size_t best = 0, at = 0;
    int column = 0, width, has_word = 0;
    for (size_t size; at < body.length && (column < room || !best); at += size) {
        size = step(body, at, &width);
        if (width && body.text[at] == ' ' && has_word && body.text[at - 1] != ' ')
            best = at;
        has_word |= width && body.text[at] != ' ';
        column += width;
    }
    if (at == body.length && column <= room)
        best = body.length;
    else if (at < body.length && column <= room && body.text[at] == ' ')
        best = at;
    if (best > 4 && best < body.length && !strncmp(body.text + best - 3, " in", 3)) /* "file.c:12 in function" */
        best -= 3;
    best = best && best < body.length ? before_count(body, best) : body.length;
    for (size_t i = 0, size; i < best; i += size) {
        size = step(body, i, &width);
        if (body.text[i] == '\033')
            *colour = strncmp(body.text + i, RESET, 4) != 0 ? (struct piece){body.text + i, size} : (struct piece){0};
    }
    return best;
}

static void put(FILE *out, struct piece piece)
{
    if (piece.length) /* an empty one may have no text */
        fwrite(piece.text, 1, piece.length, out);
}

/* Prints one line in as many as it takes. */
static void fold_line(FILE *out, struct piece prefix, struct piece body, int columns)
{
    struct piece mark = cut_mark(&body), colour = {0};
    int room = columns - width_of(prefix), under = hang_of(body), hang = 0;
    do {
        struct piece before = colour;
        int reserved = mark.length ? width_of(mark) + 2 : 0;
        size_t length = fitting(body, room - hang - reserved, &colour);
        if (reserved && !hang && length < body.length && width_of((struct piece){body.text, length}) <= under) {
            reserved = 0; /* the mark can wait for a line that has room for more than a key */
            colour = before;
            length = fitting(body, room, &colour);
        }
        int over = hang + reserved + width_of((struct piece){body.text, length}) - room;
        if (over > 0 && hang > SHALLOWEST) /* a word that is too long here: it may have room further to the left */
            hang = hang - over > SHALLOWEST ? hang - over : SHALLOWEST;
        put(out, prefix);
        fprintf(out, "%*s", hang, "");
        put(out, before);
        put(out, (struct piece){body.text, length});
        if (reserved) {
            int gap = room - hang - width_of((struct piece){body.text, length}) - width_of(mark);
            fprintf(out, "%*s", gap > 2 ? gap : 2, "");
            put(out, mark);
            mark.length = 0;
        }
        hang = under;
        body = rest_of(body, length);
        while (body.length && *body.text == ' ')
            body = rest_of(body, 1);
        fputs(colour.length && body.length ? RESET "\n" : "\n", out);
    } while (body.length || mark.length);
}

/* ---- sentences of a report, which it has broken at REPORT_WIDTH ---- */

static int has_key(struct piece body, const char *key)
{
    size_t size = strlen(key);
    return body.length > size + 3 && !strncmp(body.text, "  ", 2) && !strncmp(body.text + 2, key, size) &&
           body.text[2 + size] == ' ';
}

/* Whether `next` goes on with the sentence of `body`: it begins below it, with a word that had no room there. */
static int goes_on(struct piece prefix, struct piece body, int room, const char *next)
{
    int hang = hang_of(body);
    size_t length = strcspn(next, "\n");
    struct piece line = {next, length};
    if (length <= prefix.length + (size_t)hang || strncmp(next, prefix.text, prefix.length) != 0)
        return 0;
    line = rest_of(line, prefix.length);
    if (hang_of(line) != hang || cut_mark(&line).length)
        return 0;
    size_t word = strcspn(line.text + hang, " \n");
    return width_of(body) + 1 + (int)word > room;
}

/* Folds the line at `text` and those that go on with its sentence. Returns what follows; NULL if out of host memory. */
static const char *fold_from(FILE *out, const char *text, int columns)
{
    struct piece line = {text, strcspn(text, "\n")};
    text += line.length + (text[line.length] == '\n');
    int is_command = line.length > 2 && !strncmp(line.text, "::", 2); /* to GitHub: finding/report.h */
    if (is_command || width_of(line) <= columns) {
        put(out, line);
        putc('\n', out);
        return text;
    }
    struct piece prefix = {line.text, prefix_of(line)}, body = rest_of(line, prefix.length), mark, last = body;
    if (!has_key(body, "hint") && !has_key(body, "note")) {
        fold_line(out, prefix, body, columns);
        return text;
    }
    char *joined = NULL;
    size_t size;
    FILE *sentence = open_memstream(&joined, &size);
    if (!sentence)
        return NULL;
    mark = cut_mark(&last);
    put(sentence, last);
    for (int room = REPORT_WIDTH - width_of(prefix) - (mark.length ? 11 : 0); goes_on(prefix, last, room, text);) {
        last = (struct piece){text + prefix.length, strcspn(text, "\n") - prefix.length};
        text = last.text + last.length + (last.text[last.length] == '\n');
        size_t indent = strspn(last.text, " ");
        putc(' ', sentence);
        put(sentence, rest_of(last, indent));
    }
    if (mark.length) {
        fputs("  ", sentence);
        put(sentence, mark);
    }
    if (fclose(sentence) == 0)
        fold_line(out, prefix, (struct piece){joined, size}, columns);
    else
        text = NULL;
    free(joined);
    return text;
}

char *fold_text(const char *text, int columns)
{
    char *folded = NULL;
    size_t size;
    FILE *out = open_memstream(&folded, &size);
    if (!out)
        return NULL;
    while (text && *text)
        text = fold_from(out, text, columns);
    if (fclose(out) == 0 && text)
        return folded;
    free(folded);
    return NULL;
}
