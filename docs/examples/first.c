/*
 * cufence in a C program: buffers with labels, what is known about an address, figures, and a function that is called when
 * a kernel faults. Runs on a GPU, or with CUFENCE_DRIVER=sim on the simulated device. Builds with
 *     cc first.c -o first $(pkg-config --cflags --libs cufence)
 */
#include <cufence.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Called once for each fault, after its report was printed. A program would save its state here, or tell its supervisor. */
static void on_fault(const cufence_fault *fault, void *user)
{
    const char *program = user, *kernel = fault->kernel ? fault->kernel : "an unknown kernel";
    fprintf(stderr, "%s: %s in %s\n", program, fault->kind, kernel);
    if (fault->place == CUFENCE_PLACE_PAST_END && fault->certainty >= CUFENCE_CERTAINTY_DERIVED)
        fprintf(stderr, "%s: %s of %" PRIu64 " bytes, %" PRIu64 " bytes past the end of \"%s\"\n", program,
                fault->access == CUFENCE_ACCESS_WRITE ? "a write" : "an access", fault->width, fault->distance,
                fault->buffer->label);
}

static void check(cufence_status status, const char *what)
{
    if (status == CUFENCE_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, cufence_strerror(status), cufence_error_detail());
    exit(1);
}

static void explain(const char *what, const char *address)
{
    static const char *const places[] = {"is not cufence's",         "is inside",         "lies past the end of",
                                         "lies before the start of", "lies in the freed", "lies in no buffer"};
    cufence_description found = {.struct_size = sizeof found};
    check(cufence_describe(address, &found), "cufence_describe");
    printf("%-22s %s", what, places[found.place]);
    if (found.buffer.id)
        printf(" buffer #%" PRIu64 " \"%s\" of %" PRIu64 " bytes, offset %" PRIu64, found.buffer.id, found.buffer.label,
               found.buffer.size, found.offset);
    putchar('\n');
}

int main(void)
{
    char name[] = "first";
    void *weights = NULL, *bias = NULL;
    cufence_stats stats = {.struct_size = sizeof stats};

    cufence_set_fault_handler(on_fault, name);
    check(cufence_init("side=end"), "cufence_init"); /* before the first CUDA context */

    /* Device 0, default stream. The label is what a report will call the buffers. */
    check(cufence_label_push("layer 1"), "cufence_label_push");
    check(cufence_malloc(&weights, 4000, 0, NULL), "cufence_malloc");
    check(cufence_malloc(&bias, 160, 0, NULL), "cufence_malloc");
    check(cufence_label_pop(), "cufence_label_pop");

    explain("the 100th weight", (char *)weights + 400);
    explain("right past weights", (char *)weights + 4000);
    explain("address 8", (char *)8);

    check(cufence_get_stats(0, &stats), "cufence_get_stats");
    printf("%" PRIu64 " live buffers, %" PRIu64 " bytes, in %" PRIu64 " bytes of mapped memory\n", stats.live_buffers,
           stats.live_bytes, stats.mapped_bytes);

    check(cufence_free(weights, NULL), "cufence_free");
    explain("the 100th, freed", (char *)weights + 400);
    check(cufence_free(bias, NULL), "cufence_free");
    if (cufence_free(bias, NULL) == CUFENCE_ERROR_DOUBLE_FREE)
        printf("freed twice: %s\n", cufence_error_detail());
    return 0;
}
