/* The page is page.html, with the findings in it as JSON: one script in it draws them. */
#include "findings_file.h"

#include "page_html.h"

#include "base/text.h"
#include "finding/report_common.h"

#include <stdlib.h>
#include <string.h>

/* What would end a script's or an element's text is written in another way. */
static void put_json(json_t *object, FILE *out)
{
    char *text = text_of_json(json_incref(object), JSON_COMPACT);
    for (const char *at = text; at && *at != '\n'; at++) {
        if (*at == '<')
            fputs("\\u003c", out);
        else
            fputc(*at, out);
    }
    free(text);
}

/* What was run and guarded. */
static int put_run(const struct collected *collected, FILE *out)
{
    json_t *run = json_pack("{ss sI sO? sO?}", "cufence", VERSION_TEXT, "known", (json_int_t)collected->known_count, "runs",
                            collected->runs, "guarded", collected->guarded);
    if (!run)
        return 0;
    put_json(run, out);
    json_decref(run);
    return 1;
}

/* As the report does. */
static void add_values(json_t *to, const struct finding *finding)
{
    json_t *written = json_deep_copy(json_object_get(to, "written")); /* the other documents have what was read */
    if (written)
        json_object_set_new(to, "written", written);
    for (size_t i = 0; finding->rerun && i < finding->rerun->write_count; i++) {
        char *values = written_values(finding, i);
        if (values && *values)
            json_object_set_new(json_array_get(written, i), "shown", text_to_json(values + strlen(": ")));
        free(values);
    }
}

/* Which launches were given slack, and where. */
static void add_launches(json_t *to, const struct slack_write *slack)
{
    json_t *shown = json_deep_copy(json_object_get(to, "slack"));
    json_t *list = json_object_get(json_object_get(shown, "launches"), "list");
    char name[256], place[512];
    for (size_t i = 0; slack && i < json_array_size(list) && i < slack->launch_count; i++) {
        const struct fault_launch *launch = &slack->launches[i];
        const struct launch_function *function = launch->entry->function;
        place[0] = '\0';
        frames_place(launch->frames, launch->frame_count, place, sizeof place);
        finding_kernel_of(function ? function->name : "", name, sizeof name);
        json_object_set_new(json_array_get(list, i), "shown", text_to_json(name));
        json_object_set_new(json_array_get(list, i), "place", text_to_json(place));
    }
    if (shown)
        json_object_set_new(to, "slack", shown);
}

static int put_findings(const struct collected *collected, FILE *out)
{
    for (size_t i = 0; i < collected->count; i++) {
        json_t *copy = collected_json(&collected->findings[i]);
        add_values(copy, collected->findings[i].facts);
        add_launches(copy, collected->findings[i].facts->slack);
        if (!copy)
            return 0;
        fputs(i ? ",\n" : "", out);
        put_json(copy, out);
        json_decref(copy);
    }
    return 1;
}

static void put_escaped(char *text, FILE *out)
{
    text_make_plain(text);
    for (; *text; text++) {
        if (strchr("<>&\"", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    }
}

/* For a reader without scripts. */
static int put_plain(const struct collected *collected, FILE *out)
{
    char headline[512], place[512], tensor[256], guarded[160];
    collected_say_guarded(collected, guarded, sizeof guarded);
    fprintf(out, "<p>%zu finding%s%s</p>", collected->count, plural(collected->count), guarded);
    for (size_t i = 0; i < collected->count; i++) {
        const struct collected_finding *finding = &collected->findings[i];
        finding_place(finding->facts, place, sizeof place);
        fputs("<article><h2>", out);
        text_format(headline, sizeof headline, "%s", finding->facts->headline);
        put_escaped(headline, out);
        fputs("</h2><p>", out);
        put_escaped(place, out);
        finding_tensor(finding, tensor, sizeof tensor);
        if (tensor[0]) {
            fputs("</p><p>the buffer is ", out);
            put_escaped(tensor, out);
        }
        fprintf(out, "</p><p>%zu report%s</p></article>", finding->count, plural(finding->count));
    }
    return 1;
}

int face_html(const struct collected *collected, FILE *out)
{
    static const struct {
        const char *mark;
        int (*put)(const struct collected *collected, FILE *out);
    } parts[] = {{"<!--PLAIN-->", put_plain}, {"<!--RUN-->", put_run}, {"<!--FINDINGS-->", put_findings}};
    const char *at = (const char *)page_html, *end = at + sizeof page_html;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *mark = memmem(at, (size_t)(end - at), parts[i].mark, strlen(parts[i].mark));
        fwrite(at, 1, (size_t)(mark - at), out);
        if (!parts[i].put(collected, out))
            return 0;
        at = mark + strlen(parts[i].mark);
    }
    fwrite(at, 1, (size_t)(end - at), out);
    return 1;
}
