/*
 * Simulates a driver newer than the headers: CUFENCE_SIM newer=VERSION. Read from the environment at each call, because
 * programs look functions up before cuInit(). Thread safety: any thread.
 */
#ifndef CUFENCE_SIM_NEWER_H
#define CUFENCE_SIM_NEWER_H

/* Returns the driver version from that setting, as cuDriverGetVersion counts; 0: not newer. */
int newer_version(void);
/* Parses the setting's value, a version above CUDA_VERSION. Returns whether it is valid. */
int newer_parse(const char *text, int *version);
/* Finds a form that only the newer driver has. Returns whether there is one for that version. */
int newer_find(const char *name, int version, int is_twin, void **function);

#endif
