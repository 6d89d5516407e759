/*
 * A driver that is newer than the headers: CUFENCE_SIM newer=VERSION. Read from the environment at each question, because
 * programs ask for functions before cuInit(). Thread safety: any thread.
 */
#ifndef CUFENCE_SIM_NEWER_H
#define CUFENCE_SIM_NEWER_H

/* The driver's version by that setting, as cuDriverGetVersion counts; 0: it is not newer. */
int newer_version(void);
/* Reads the setting's value, a version above CUDA_VERSION. Returns whether it is one. */
int newer_parse(const char *text, int *version);
/* Finds a form that only the newer driver has. Returns whether there is one for that version. */
int newer_find(const char *name, int version, int is_twin, void **function);

#endif
