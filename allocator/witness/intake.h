/*
 * The end of the dumps' pipe that is read. The program may close it and use its number anew.
 */
#ifndef CUFENCE_WITNESS_INTAKE_H
#define CUFENCE_WITNESS_INTAKE_H

#include <sys/types.h>

struct intake {
    int pipe; /* atomic */
    const char *path;
    dev_t device; /* of the pipe, as is the next */
    ino_t inode;
};

/* Opens the pipe for reading, without waiting for a writer. path must stay valid. Returns 0 on failure and sets errno. */
int intake_open(struct intake *intake, const char *path);
void intake_close(struct intake *intake);

/* Opens it again if the number is the pipe's no more. Returns 0 if that fails. By the thread that reads. */
int intake_renew(struct intake *intake);

/* Returns 1 if bytes are waiting: they are written but not yet read. Any thread. */
int intake_has_bytes(const struct intake *intake);

#endif
