/* See call_checks.c. Release builds check nothing. */
#pragma once

#include "driver.h"

#ifdef NDEBUG
#define driver_check_calls(table) ((void)(table))
#define driver_owns(stream) ((void)(stream))
#define driver_disowns(stream) ((void)(stream))
#else
/* Puts the checks in front of the functions of the table. Call once, before others see it. */
void driver_check_calls(struct driver *table);
/* The stream is cufence's own; its context has ended. Any thread. */
void driver_owns(CUstream stream);
void driver_disowns(CUstream stream);
#endif
