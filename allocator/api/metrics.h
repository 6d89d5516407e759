/*
 * The figures of cufence in Prometheus' text format, version 0.0.4:
 * https://prometheus.io/docs/instrumenting/exposition_formats/. Thread safety: any thread, while cufence runs.
 */
#ifndef CUFENCE_API_METRICS_H
#define CUFENCE_API_METRICS_H

/* Returns malloc'ed text, NULL if out of host memory. */
char *metrics_text(void);

#endif
