#include "short_name.h"
#include "finding.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST 64    /* levels of template arguments */
#define LONGEST 4096  /* bytes of a name that are looked at: a damaged dump has any */
#define LEAST_KEPT 24 /* bytes of the first ones, of more than fit */

static const char anonymous[] = "(anonymous namespace)", operator[] = "operator", call[] = "operator()",
                  digits[] = "0123456789";

static int is_word(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_';
}

/* Finds the name itself: behind the return type, which demangled names of templates begin with, and up to the parameter list,
 * the first '(' outside template arguments and lambdas. */
static void find_name(const char *name, size_t *start, size_t *end)
{
    const size_t size = strnlen(name, LONGEST);
    int depth = 0, is_operator = 0; /* "operator new" */
    *start = 0;
    for (*end = 0; *end < size; ++*end) {
        const char *at = name + *end;
        if (text_starts_with(at, anonymous)) {
            *end += sizeof anonymous - 2;
        } else if (text_starts_with(at, operator) && !depth && (at == name || !is_word(at[-1]))) {
            is_operator = 1;
            *end += sizeof operator- 2 +(text_starts_with(at, call) ? 2 : 0);
        } else if (*at == '(' && !depth && !memmem(at, size - *end, ")::", 3)) {
            return;
        } else if (*at == ' ' && !depth && !is_operator && !text_starts_with(at, " const")) {
            *start = *end + 1;
        } else {
            depth += (strchr("<({", *at) != NULL) - (strchr(">)}", *at) && depth);
        }
    }
}

/* Returns the bracket that closes the one at `from`, or `end`. */
static const char *closing(const char *from, const char *end)
{
    int depth = 0;
    for (const char *at = from; at < end; at++) {
        depth += (strchr("<({", *at) != NULL) - (strchr(">)}", *at) != NULL);
        if (!depth)
            return at;
    }
    return end;
}

static const char *behind(const char *close, const char *end)
{
    return close < end ? close + 1 : end;
}

/* Returns what follows an inline namespace of a library at `at`, or `at`. */
static const char *skip_namespace(const char *at, const char *end)
{
    static const char *const names[] = {"__cxx11::", "__1::", "__4::", "__detail::", "(anonymous namespace)::"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_starts_with(at, names[i]))
            return at + strlen(names[i]);
    if (!text_starts_with(at, "THRUST_") && !text_starts_with(at, "CUB_"))
        return at;
    const char *word = at + strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return word < end && text_starts_with(word, "::") ? word + 2 : at;
}

/* Returns what follows the parameters that end at `close`, with their qualifiers. */
static const char *skip_qualifiers(const char *close, const char *end)
{
    static const char *const words[] = {" const", " volatile", " &&", " &", " noexcept"};
    const char *at = behind(close, end);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_starts_with(at, words[i]))
            at += strlen(words[i]);
    return at;
}

struct writer {
    char *out;
    size_t size, used;
};

static void put(struct writer *writer, const char *text, size_t length)
{
    for (size_t i = 0; i < length && writer->used + 1 < writer->size; i++)
        writer->out[writer->used++] = text[i];
}

static int ends_with(const struct writer *writer, const char *text)
{
    size_t length = strlen(text);
    return writer->used >= length && !memcmp(writer->out + writer->used - length, text, length);
}

/* A '(': of parameters, which are left out, of a cast, likewise, or of a function's type. Returns where to go on. */
static const char *take_parenthesis(struct writer *writer, const char *at, const char *end)
{
    const char *close = closing(at, end);
    int is_type = writer->used >= 2 && ends_with(writer, " ") && !ends_with(writer, ", ");
    if (!is_type)
        return skip_qualifiers(close, end);
    put(writer, at, (size_t)(close - at) + (close < end));
    return behind(close, end);
}

/* "{lambda(int)#1}::operator()(int) const::{lambda()#2}" is one lambda to a reader. */
static const char *take_lambda(struct writer *writer, const char *at, const char *end)
{
    static const char word[] = "{lambda}";
    const char *close = closing(at, end);
    at = behind(close, end);
    if (!ends_with(writer, "{lambda}::"))
        put(writer, word, sizeof word - 1);
    else
        writer->used -= 2;
    return text_starts_with(at, "::operator()") ? at + strlen("::operator()") : at;
}

/* Writes the part of a name, with template arguments up to that depth. */
static void write_part(struct writer *writer, const char *at, const char *end, int deepest)
{
    int depth = 0;
    while (at < end) {
        int begins = !writer->used || !is_word(writer->out[writer->used - 1]);
        const char *after = begins ? skip_namespace(at, end) : at;
        if (after != at) {
            at = after;
        } else if (begins && text_starts_with(at, call)) {
            put(writer, at, sizeof call - 1);
            at += sizeof call - 1;
        } else if (text_starts_with(at, "{lambda")) {
            at = take_lambda(writer, at, end);
        } else if (*at == '(') {
            at = take_parenthesis(writer, at, end);
        } else if (*at == '<' && depth == deepest) {
            put(writer, "<...>", 5);
            at = behind(closing(at, end), end);
        } else if (*at == ' ' && at + 1 < end && at[1] == '>') {
            at++;
        } else {
            depth += (*at == '<') - (*at == '>' && depth);
            put(writer, at++, 1);
        }
    }
}

/* The template arguments: from the first '<' to the last '>'. */
struct list {
    size_t start, length;
};

static struct list arguments_of(const struct writer *writer)
{
    const char *first = memchr(writer->out, '<', writer->used), *last = memrchr(writer->out, '>', writer->used);
    return first && last > first ? (struct list){(size_t)(first - writer->out), (size_t)(last - first) + 1}
                                 : (struct list){0, 0};
}

/* Keeps the first arguments that fit, and puts "..." for the others. Returns 0 if those would say too little, and if more than
 * one list follows. */
static int keep_first(struct writer *writer, struct list list, size_t most)
{
    static const char rest[] = ", ...>";
    const char *end = writer->out + writer->used;
    size_t kept = 0;
    int depth = 0;
    if (closing(writer->out + list.start, end) + 1 != end)
        return 0;
    for (size_t i = 1; i + sizeof rest - 1 <= most && i < list.length; i++) {
        char letter = writer->out[list.start + i];
        depth += (letter == '<' || letter == '{' || letter == '(') - (letter == '>' || letter == '}' || letter == ')');
        if (letter == ',' && !depth)
            kept = i;
    }
    if (kept < LEAST_KEPT)
        return 0;
    writer->used = list.start + kept;
    put(writer, rest, sizeof rest - 1);
    return 1;
}

/* A kernel of CuTe DSL is called "kernel_cutlass_", its function's name, arguments as Python prints them, and a number; one of
 * cuTile its function's name, "_Kt1" for how it is called, and arguments. Returns where the function's name is, and its length;
 * NULL for another name. */
static const char *function_of_python(const char *name, size_t *length)
{
    static const char start[] = "kernel_cutlass_", mark[] = "_Kt";
    static const char *const arguments[] = {"_tensorptr", "_Tensor", "_Tiled", "_CopyAtom", "_object_at_"};
    const size_t all = strnlen(name, LONGEST);
    if (memchr(name, '(', all) || memchr(name, '<', all))
        return NULL;
    const char *tile = memmem(name, all, mark, sizeof mark - 1);
    size_t number = tile ? strspn(tile + sizeof mark - 1, digits) : 0;
    if (tile && tile > name && number && tile[sizeof mark - 1 + number] == '_') {
        *length = (size_t)(tile - name);
        return name;
    }
    if (!text_starts_with(name, start))
        return NULL;
    name += sizeof start - 1;
    *length = all - (sizeof start - 1);
    while (*length && strchr(digits, name[*length - 1]))
        --*length;
    *length -= *length && name[*length - 1] == '_';
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        const char *found = memmem(name, *length, arguments[i], strlen(arguments[i]));
        if (found)
            *length = (size_t)(found - name);
    }
    return *length ? name : NULL;
}

void short_name(const char *name, size_t most, char *out, size_t size)
{
    char whole[1024]; /* what does not fit is too long in any case */
    size_t start, end;
    struct writer writer = {whole, sizeof whole, 0};
    const char *python = function_of_python(name, &end);
    if (python) {
        text_format(out, size, "%.*s", (int)end, python);
        return;
    }
    find_name(name, &start, &end);
    for (int deepest = DEEPEST; deepest >= 0; deepest = deepest == DEEPEST ? 2 : deepest - 1) {
        writer.used = 0;
        write_part(&writer, name + start, name + end, deepest);
        struct list list = arguments_of(&writer);
        if (list.length <= most && writer.used + 1 < sizeof whole)
            break;
        if (deepest == 1 && keep_first(&writer, list, most))
            break;
    }
    text_format(out, size, "%.*s", (int)writer.used, whole);
}

int short_name_is_plumbing(const char *function)
{
    /* clang-format off */
    static const char *const starts[] = {
        "std::_Function_handler<", "std::_Function_base::", "std::function<", "std::__invoke",
        "std::invoke", "std::__apply_impl", "std::apply", "std::_Bind",
        "std::_Mem_fn", "std::reference_wrapper<", "std::thread::_Invoker<", "std::thread::_State",
        "std::__function::", "std::__1::__function::", "std::__1::__invoke", "std::__1::function<",
        "std::__1::__thread", "std::__1::__bind", "std::__thread", "std::call_once",
        "std::__future_base::", "std::packaged_task<", "execute_native_thread_routine",
    };
    /* clang-format on */
    size_t start, end;
    find_name(function, &start, &end);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (text_starts_with(function + start, starts[i]))
            return 1;
    return 0;
}

#define LONGEST_NAME 32 /* of template arguments; longer ones are abbreviated */

void finding_kernel(const struct evidence_stop *stop, char *out, size_t size)
{
    short_name(stop->kernel ? stop->kernel : stop->symbol ? stop->symbol : "", LONGEST_NAME, out, size);
}

void finding_kernel_of(const char *mangled, char *out, size_t size)
{
    char *name = text_demangled(mangled);
    short_name(name ? name : mangled, LONGEST_NAME, out, size);
    free(name);
}
