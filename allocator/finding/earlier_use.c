
#include "report_common.h"
#include "parts.h"

#include <inttypes.h>

void earlier_take(struct finding *finding, const struct misuse *misuse)
{
    struct used_fact *used = &finding->used;
    const struct earlier_use *use = used->use = misuse->earlier;
    if (use->kernel)
        finding_kernel_of(use->kernel, used->kernel, sizeof used->kernel);
    if (use->graph)
        part_add(used->order, "a node of graph 0x%" PRIx64 " keeps the address that it was given then", use->graph);
    else if (use->is_kept)
        part_add(used->order, "the texture keeps the address that it was given then");
    else if (use->is_host_memory)
        part_add(used->order, "the host had not waited for that copy: its stream, or an event behind it");
    else if (use->by_host)
        part_add(used->order, "this call does not wait for that stream, and neither has the host");
    else
        part_add(used->order, "stream 0x%" PRIx64 " has not waited for an event after that work, and neither has the host",
                 use->by_stream);
    if (use->is_kept)
        part_add(finding->hint, "keep the buffer until the last launch%s",
                 use->graph ? ", or give the node another address first" : " with this texture");
    else if (use->is_host_memory)
        part_add(finding->hint,
                 "wait for the copy, by its stream or an event behind it, before the memory is changed, read or freed");
    else if (misuse->access == ACCESS_UNKNOWN && use->by_host)
        part_add(finding->hint, "synchronise with that stream, or with its device, before the buffer is freed");
    else if (misuse->access == ACCESS_UNKNOWN)
        part_add(finding->hint, "call tensor.record_stream(stream) or cufence_record_stream(), or let the freeing stream wait "
                                "for an event recorded after that work");
    else
        part_add(finding->hint, "let the stream of this call wait for an event recorded after that work");
}

const char *use_name(const struct earlier_use *use, char *name, size_t size)
{
    if (!use->kernel)
        return use->call ? use->call : "work that is not on record";
    finding_kernel_of(use->kernel, name, size);
    return name[0] ? name : "a kernel";
}

void use_lines(struct report *report, const char *key, const struct earlier_use *use, enum certainty certainty, uint64_t now_ns)
{
    char name[256];
    report_line(report, key, NULL, certainty, "%s%s", use_name(use, name, sizeof name),
                use->entry ? grid_of(use->entry->grid, use->entry->block).text : "");
    if (use->tid)
        report_when_line(report, NULL, now_ns, use->time_ns, use->tid, use->stream);
    report_frame_lines(report, "", "from", NULL, CERTAIN_NOT, use->frames, use->frame_count);
}

/* Puts what may still use the buffer, who launched it, and that nothing orders it before the call. */
void earlier_lines(struct report *report, const struct finding *finding)
{
    const struct used_fact *used = &finding->used;
    if (!used->use)
        return;
    int is_kept = used->use->is_kept;
    use_lines(report, is_kept ? "given by" : "in use by", used->use, CERTAIN_DERIVED, finding->now_ns);
    report_sentence(report, is_kept ? "kept" : "order", used->order, CERTAIN_DERIVED);
}
