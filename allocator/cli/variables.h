/*
 * Environment variables named CUFENCE_* that nothing reads: CUFENCE_UAF=strict where CUFENCE_OPTIONS=uaf=strict was meant.
 */
#ifndef CUFENCE_CLI_VARIABLES_H
#define CUFENCE_CLI_VARIABLES_H

struct variable_note {
    char what[160];   /* "CUFENCE_UAF=strict: cufence reads no such variable" */
    char remedy[160]; /* "write CUFENCE_OPTIONS=uaf=strict" */
};

/* Judges an entry of the environment, "NAME=VALUE". Returns 0 if nothing is wrong with it. Pure. */
int variables_judge(const char *entry, struct variable_note *note);

/* Names all such entries on stderr, behind the sub-command's name; once in a process, because `cufence hunt` starts several
 * runs from one. Not thread-safe. */
void variables_tell(const char *command, char *const *entries);

#endif
