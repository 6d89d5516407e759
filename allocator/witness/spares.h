/*
 * File descriptors that are kept from the start on, so that a fault is reported and its kernel launched again where the program
 * has used up its limit. They are lent while a report is made; what other threads open meanwhile may take them.
 *
 * Thread safety: one thread at a time.
 */
#ifndef CUFENCE_WITNESS_SPARES_H
#define CUFENCE_WITNESS_SPARES_H

/* Takes the descriptors, as far as the limit allows. */
void spares_take(void);

/* Gives them up until the next spares_take(). One that the program has closed, and may have used anew, is left alone. */
void spares_lend(void);

/* Gives all of them up. */
void spares_end(void);

#endif
