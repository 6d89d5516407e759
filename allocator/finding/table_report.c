#include "report_common.h"

#include <inttypes.h>

void table_lines(struct report *report, const struct finding *finding)
{
    const struct table_fact *table = finding->table;
    report_begin(report, "table", NULL);
    report_put(report, "element %" PRIu64 " of int%" PRIu32 "[%" PRIu64 "] at 0x%" PRIx64 ": %" PRId64, table->element,
               table->width * 8, table->count, table->address, table->value.whole);
    if (table->wrong > 1)
        report_put(report, "; %" PRIu64 " elements are wrong", table->wrong);
    report_end(report, CERTAIN_EXACT);
    launched_kernel_line(report, &table->by);
    if (table->is_held)
        report_line(report, "", "held back", CERTAIN_NOT, "the launch was refused, and so is all that follows on the device");
    launched_lines(report, &table->by);
}
