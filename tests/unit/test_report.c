/* Complete reports, compared literally. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "finding/annotation.h"
#include "finding/writer.h"
#include "support/told.h"
#include "rerun_stories.h"

/* clang-format off */
static const struct {
    void (*make)(struct story *story);
    const char *text; /* without the prefix of each line */
} reports[] = {
    {overrun,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1\n"},
    {without_parameters,
     "cufence: out-of-bounds WRITE of 4 bytes, 34599008 bytes before the start of buffer #2 (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e00062ff060, 34599008 bytes before the start of buffer #2             exact\n"
     "  owner      #2: nearer end, no argument decides                                    derived\n"
     "             or 34599008 bytes past the end of buffer #1                          candidate\n"
     "  buffer     #2, 8000 bytes [0x7e00083fe0c0, 0x7e0008400000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | #1 4000 |....... guard 64 MiB X| slack 2089152 | #2 8000 |\n"
     "SUMMARY: cufence: underrun at oob.py:9 in k_oob: write, 34599008 bytes before the start of buffer #2 (derived)\n"},
    {vector_overrun,
     "cufence: out-of-bounds READ of 16 bytes, 8 bytes of the access lie past the end of buffer #1\n"
     "  at oob.py in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>> in clusters of (1,2,1)                     exact\n"
     "             argument word 1 points to this buffer\n"
     "             instruction   (k_oob+0x400)\n"
     "             also          2 more warps at this instruction\n"
     "  address    0x7e00041ffff8, 8 bytes of the access lie past the end of buffer #1      exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "SUMMARY: cufence: overrun at oob.py in k_oob: read, 8 bytes of the access lie past the end of buffer #1\n"},
    {approximate,
     "cufence: out-of-bounds access, 0 bytes past the end of buffer #1 (derived)\n"
     "  in k_oob, block (7,0,0) thread (104,0,0) and 1 more, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument word 1 points to this buffer                             exact\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                      derived\n"
     "  owner      #1: the kernel was given it, and not the buffer on the other side      derived\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "SUMMARY: cufence: overrun in k_oob: out-of-bounds access, 0 bytes past the end of buffer #1 (derived)\n"},
    {underrun,
     "cufence: out-of-bounds ATOMIC of 4 bytes, 32 bytes before the start of buffer #2 \"layer 3?attention é\"\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e00081fffe0, 32 bytes before the start of buffer #2                   exact\n"
     "  buffer     #2, 2097152 bytes (2 MiB) [0x7e0008200000, 0x7e0008400000), stream 0x5581c0,\n"
     "             label \"layer 3?attention é\"\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | #1 4000 |....... guard 64 MiB X| #2 2 MiB |\n"
     "SUMMARY: cufence: underrun at oob.py:9 in k_oob: atomic, 32 bytes before the start of buffer #2 \"layer 3?attention é\"\n"},
    {use_after_free,
     "cufence: use-after-free READ of 4 bytes, 40 bytes into buffer #3, which has been freed\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e000c5ff9e8, 40 bytes into buffer #3, which has been freed            exact\n"
     "  buffer     #3, 1600 bytes [0x7e000c5ff9c0, 0x7e000c600000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "             freed         23 ms ago by thread 4243 on stream 0x5581c8\n"
     "  memory     | #2 8000 | slack 2095552 |X #3 1600 freed | guard 64 MiB | #7 4001 |\n"
     "SUMMARY: cufence: use-after-free at oob.py:9 in k_oob: read, 40 bytes into buffer #3, which has been freed\n"},
    {slack_behind_the_end,
     "cufence: out-of-bounds WRITE of 4 bytes, 15 bytes past the end of buffer #7\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e0010800000, 15 bytes past the end of buffer #7                       exact\n"
     "  buffer     #7, 4001 bytes [0x7e00107ff050, 0x7e00107ffff1), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | slack 2093136 | #7 4001 | slack 15 |X guard 64 MiB .......|\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 15 bytes past the end of buffer #7\n"},
    {null_pointer,
     "cufence: null-pointer WRITE of 4 bytes at 0x0\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x0, a null pointer                                                      exact\n"
     "SUMMARY: cufence: null pointer at oob.py:9 in k_oob: write at 0x0\n"},
    {null_field,
     "cufence: null-pointer WRITE of 4 bytes at 0x10\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x10, a null pointer with an offset of 16 bytes                          exact\n"
     "  hint       an offset from a null pointer: an element of an array, or a member   candidate\n"
     "             of a struct, that is not there?\n"
     "SUMMARY: cufence: null pointer at oob.py:9 in k_oob: write at 0x10\n"},
    {host_pointer,
     "cufence: host-pointer WRITE of 4 bytes at 0x7fff12345678\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7fff12345678, memory of the host that the device cannot reach          exact\n"
     "  hint       copy the data to the device, or keep it in managed or pinned memory  candidate\n"
     "SUMMARY: cufence: host pointer at oob.py:9 in k_oob: write at 0x7fff12345678\n"},
    {wild_outside,
     "cufence: wild-address WRITE of 4 bytes at 0x7fff12345678\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7fff12345678, in no buffer of cufence's and not in its address space   exact\n"
     "  note       candidates are the buffers that the kernel's arguments point to\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument word 1     candidate\n"
     "SUMMARY: cufence: wild address at oob.py:9 in k_oob: write at 0x7fff12345678\n"},
    {wild_inside,
     "cufence: wild-address WRITE of 4 bytes at 0x7e0008200008\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e0008200008, in cufence's address space, but in no buffer or guard    exact\n"
     "  note       candidates are the buffers that the kernel's arguments point to\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument word 1     candidate\n"
     "  memory     | #1 4000 | ....... X ....... | #7 4001 |\n"
     "SUMMARY: cufence: wild address at oob.py:9 in k_oob: write at 0x7e0008200008\n"},
    {misaligned,
     "cufence: misaligned WRITE of 4 bytes, not a multiple of 4, 10 bytes into buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e00041ff06a, not a multiple of 4, 10 bytes into buffer #1             exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "SUMMARY: cufence: misaligned access at oob.py:9 in k_oob: write, not a multiple of 4, 10 bytes into buffer #1\n"},
    {another_devices_buffer,
     "cufence: illegal memory access by a WRITE of 4 bytes, 12 bytes into buffer #2, to which this GPU may have no access (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e00083fe0cc, 12 bytes into buffer #2, to which this GPU may have no access  exact\n"
     "  buffer     #2, 8000 bytes [0x7e00083fe0c0, 0x7e0008400000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write, 12 bytes into buffer #2, to which this GPU may have no access (derived)\n"},
    {exited,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             also          2 more SMs at this instruction\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             candidates are the live buffers of the device, newest first\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000)                      candidate\n"
     "  buffer     #2, 8000 bytes [0x7e00083fe0c0, 0x7e0008400000)                      candidate\n"
     "             and 10 more\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {exited_with_parameters,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     unknown, at PC 0x7f0000001400 <<<(8,1,1), (128,1,1)>>>                   exact\n"
     "             instruction   STG.E [R2.64], R5\n"
     "  note       the warp had exited when the driver wrote its dump, so address and thread are\n"
     "             missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             candidates are the buffers that the kernel's arguments point to\n"
     "  buffer     #3, 1600 bytes [0x7e000c5ff9c0, 0x7e000c600000), freed, argument word 0  candidate\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument word 1     candidate\n"
     "SUMMARY: cufence: illegal access at oob.py:9: write (address unknown: the warp had exited)\n"},
    {address_not_decoded,
     "cufence: illegal memory access (address unknown)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   UTMALDG.2D   (k_oob+0x400)\n"
     "  note       the address cannot be told from this instruction and the registers in the dump\n"
     "             candidates are the buffers that the kernel's arguments point to\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument word 1     candidate\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: illegal memory access (address unknown)\n"},
    {half_known,
     "cufence: use-after-free READ of 4 bytes, 40 bytes into buffer #3, which has been freed (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e000c5ff9e8, 40 bytes into buffer #3, which has been freed          derived\n"
     "  owner      #3: only this argument explains the address's low half                 derived\n"
     "  buffer     #3, 1600 bytes [0x7e000c5ff9c0, 0x7e000c600000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "             freed         23 ms ago by thread 4243 on stream 0x5581c8\n"
     "  note       a register holds the low half of the address; the high half is what the\n"
     "             buffers allow that the kernel's arguments point to\n"
     "  memory     | #2 8000 | slack 2095552 |X #3 1600 freed | guard 64 MiB | #7 4001 |\n"
     "SUMMARY: cufence: use-after-free at oob.py:9 in k_oob: read, 40 bytes into buffer #3, which has been freed (derived)\n"},
    {half_known_between_arguments,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                      derived\n"
     "  owner      #1: the next buffer is at least four times farther                     derived\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  note       a register holds the low half of the address; the high half is what the\n"
     "             buffers allow that the kernel's arguments point to\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       one thread went one element too far: is <= meant to be <, or a size  candidate\n"
     "             one too large?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (derived)\n"},
    {high_half_known,
     "cufence: illegal memory access by a WRITE (address unknown)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  note       the address cannot be told from this instruction and the registers in the dump\n"
     "             the high half of the address is known; of the kernel's arguments only this is\n"
     "             near it\n"
     "  buffer     #2, 8000 bytes [0x7e01083fe0c0, 0x7e0108400000), argument word 2     candidate\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown)\n"},
    {assertion,
     "cufence: exception: assertion failed\n"
     "  in k_oob, block (7,0,0) thread (105,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   code of the driver's, called by k_oob\n"
     "  what       an assert() in the kernel failed; its text is on stdout or stderr\n"
     "             no buffer is involved\n"
     "SUMMARY: cufence: exception in k_oob: exception: assertion failed\n"},
    {trap,
     "cufence: exception: illegal instruction\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (105,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   BPT   (k_oob+0x400)\n"
     "  what       the kernel trapped by itself\n"
     "             perhaps __trap(), __builtin_unreachable(), or a check of a library   candidate\n"
     "             that ends in one\n"
     "             no buffer is involved\n"
     "SUMMARY: cufence: exception at oob.py:9 in k_oob: exception: illegal instruction\n"},
    {wrong_vote_mask,
     "cufence: exception: illegal instruction\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (105,0,0), on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             instruction   VOTE   (k_oob+0x400)\n"
     "  what       a warp ran an illegal instruction\n"
     "             perhaps the mask of a vote does not match the threads that run it    candidate\n"
     "             no buffer is involved\n"
     "SUMMARY: cufence: exception at oob.py:9 in k_oob: exception: illegal instruction\n"},
    {bystander,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "  note       the warp had exited when the driver wrote its dump, so address and thread are\n"
     "             missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             all accesses of this instruction in the dump are in bounds\n"
     "             candidates are the arguments of the launch that was still running; it may have\n"
     "             been another one\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument word 1     candidate\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {launched,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument 1 points to this buffer          exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "             launched at   train.py:41 in step                                        exact\n"
     "                           train.py:60 in <module>\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  arguments  0  0                                                                     exact\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1\n"},
    {launched_twice,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument 1 points to this buffer          exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "                           train.py:60 in <module>\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  owner      #1: the next buffer is at least four times farther                     derived\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  arguments  0  buffer #2 +12, 8000 bytes                                             exact\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (derived)\n"},
    {launched_from_two_places,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument 1 points to this buffer          exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched at   launch (libmodel.so+0x12f0)                            candidate\n"
     "                           the newest of 2 launches that it may have been\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  arguments  0  0                                                                     exact\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1\n"},
    {launched_in_a_graph,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument word 1 points to this buffer     exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched at   train.py:41 in step, perhaps in this graph             candidate\n"
     "                           train.py:60 in <module>\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1\n"},
    {launched_with_structs,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (derived)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>                                            exact\n"
     "             argument 0 at byte 8 points to this buffer\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "             launched at   train.py:41 in step                                        exact\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  owner      #1: the next buffer is at least four times farther                     derived\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  arguments  0  24 bytes                                                              exact\n"
     "                at byte 8  buffer #1 +8, 4000 bytes\n"
     "                at byte 16  buffer #2 +0, 8000 bytes\n"
     "             1  -1\n"
     "             2  256\n"
     "             3  0xdeadbeef00000000\n"
     "             4  12 bytes\n"
     "             5  248 bytes, not kept\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (derived)\n"},
    {exited_launched,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {exited_launched_traced,
     "cufence: illegal memory access by a WRITE, through a pointer into buffer #1 (derived)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             by the kernel's code, the address comes from argument 1\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1            derived\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write, through a pointer into buffer #1 (derived)\n"},
    {exited_launched_loaded,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             the address was loaded from memory\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {exited_launched_const,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "             without those that it takes as pointers to const, because the access writes\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  buffer #2 +0, 8000 bytes                                            derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {exited_launched_twice,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched at   train.py:41 in step                                    candidate\n"
     "                           the newest of 2 launches that it may have been\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             candidates are the buffers that the last 2 launches of this kernel point to\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  buffer     #2, 8000 bytes [0x7e00083fe0c0, 0x7e0008400000), argument 1          candidate\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {rerun,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument 1 points to this buffer                                  exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                       re-run\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                       re-run\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  written    96 bytes past the end: 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 ...              re-run\n"
     "  arguments  0  0                                                                    re-run\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (re-run)\n"},
    {rerun_given,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument 1 points to this buffer                                  exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                       re-run\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                       re-run\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  written    96 bytes past the end: 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 ...              re-run\n"
     "  arguments  0  buffer #2 +0, 8000 bytes                                             re-run\n"
     "                float64[1000] (guess)  of 64 bytes:                                  re-run\n"
     "                min -0.3 max 1.0e+22 mean 1.25e+21, 0 NaN; first -0.25 1.0e+22 0.1 3.0\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "                float32[1000]  min -4.0 max 3.0 mean -0.495992, 125 zeros, 1 NaN,    re-run\n"
     "                1 Inf; first -4.0 NaN -Inf -1.0\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (re-run)\n"},
    {rerun_for_nothing,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob<<<(8,1,1), (128,1,1)>>>  argument 1 points to this buffer          exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "             launched at   train.py:41 in step                                        exact\n"
     "                           train.py:60 in <module>\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                        exact\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  written    8 bytes, beginning 400 bytes past the end: 2.0 2.0                      re-run\n"
     "  arguments  0  0                                                                     exact\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1\n"},
    {rerun_second_launch,
     "cufence: out-of-bounds WRITE of 4 bytes, 12 bytes past the end of buffer #2 (re-run)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument 1 points to this buffer                                  exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   launch (libmodel.so+0x12f0)                               re-run\n"
     "                           of 2 launches that it may have been, this one did it again\n"
     "  address    0x7e000840000c, 12 bytes past the end of buffer #2                      re-run\n"
     "  buffer     #2, 8000 bytes [0x7e00083fe0c0, 0x7e0008400000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  arguments  0  0                                                                    re-run\n"
     "             1  buffer #2 +0, 8000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2089152 | #2 8000 |X guard 64 MiB .......|\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 12 bytes past the end of buffer #2 (re-run)\n"},
    {rerun_exited,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument 1 points to this buffer                                  exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                       re-run\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                       re-run\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  written    96 bytes past the end: 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 ...              re-run\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so the thread is\n"
     "             missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "  arguments  0  0                                                                    re-run\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (re-run)\n"},
    {rerun_all_over,
     "cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)\n"
     "  at oob.py:9 in k_oob, block (7,0,0) thread (104,0,0) and 1 more,\n"
     "     on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob  argument 1 points to this buffer                                  exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                       re-run\n"
     "  address    0x7e0004200000, 0 bytes past the end of buffer #1                       re-run\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), stream 0x5581c0\n"
     "             allocated     72.9 ms ago by thread 4242\n"
     "  written    8 bytes, beginning 128 bytes past the end: -1 70000000                  re-run\n"
     "             12 bytes, ending 64 bytes before the start of buffer #2: -1 ...\n"
     "             1 byte before the start of buffer #2: ca\n"
     "             62 bytes at 0x7e00107ffff2: ca fe ca fe ca fe ca fe ca fe ca fe ...\n"
     "             and 1 more\n"
     "  arguments  0  0                                                                    re-run\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "  memory     | slack 2093152 | #1 4000 |X guard 64 MiB .......| #2 8000 |\n"
     "  hint       1024 threads run, and the buffer has 1000 elements of 4 bytes: is a  candidate\n"
     "             bounds check (a mask) missing?\n"
     "SUMMARY: cufence: overrun at oob.py:9 in k_oob: write, 0 bytes past the end of buffer #1 (re-run)\n"},
    {rerun_result_elsewhere_in_it,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "             launched again on the memory as the fault left it, the kernel faulted at\n"
     "             another place: oob.py:12 in k_oob+0x4c0\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {rerun_well,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "             launched again on the memory as the fault left it, the kernel did not fault:\n"
     "             the memory, another launch or the time made the difference\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {rerun_well_with_variables,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "             launched again on the memory as the fault left it, the kernel did not fault:\n"
     "             the memory, variables of its module (initialised again), another launch or the\n"
     "             time made the difference\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {not_rerun,
     "cufence: illegal memory access by a WRITE (address unknown: the warp had exited)\n"
     "  at oob.py:9 in k_oob, on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "  kernel     k_oob                                                                    exact\n"
     "             instruction   STG.E [R2.64], R5   (k_oob+0x400)\n"
     "             launched      13 ms ago by thread 4242 on stream 0x5581c0\n"
     "                           as <<<(8,1,1), (128,1,1)>>>\n"
     "             launched at   train.py:41 in step                                      derived\n"
     "  note       the warp had exited when the driver (580.159) wrote its dump, so address and\n"
     "             thread are missing from it; drivers from CUDA 13.3 on keep such warps\n"
     "             one launch of this kernel is on record, and points to this buffer only\n"
     "             could not be launched again: the device has no memory?for copies of 3 buffers\n"
     "  buffer     #1, 4000 bytes [0x7e00041ff060, 0x7e0004200000), argument 1          candidate\n"
     "  arguments  0  0                                                                   derived\n"
     "             1  buffer #1 +0, 4000 bytes\n"
     "             2  1000\n"
     "SUMMARY: cufence: illegal access at oob.py:9 in k_oob: write (address unknown: the warp had exited)\n"},
    {no_exception,
     "cufence: exception that the dump does not name\n"
     "  on GPU 0 (NVIDIA H100 80GB HBM3)\n"
     "\n"
     "SUMMARY: cufence: exception: exception that the dump does not name\n"},
};
/* clang-format on */

static char *text_of(const struct story *story, struct finding_origin origin)
{
    struct diagnosis diagnosis;
    fault_diagnose_rerun(&story->evidence, &story->rerun, &story->memory, &diagnosis);
    char *text = told_rerun(finding_text, &diagnosis, &story->rerun, &origin);
    assert_non_null(text);
    return text;
}

/* Checks that every line has the prefix, and takes it off, in place. */
static void strip_prefixes(char *text)
{
    static const char prefix[] = "==4242== ";
    char *out = text;
    for (const char *line = text; *line;) {
        assert_int_equal(strncmp(line, prefix, strlen(prefix)), 0);
        line += strlen(prefix);
        size_t length = strcspn(line, "\n") + 1;
        memmove(out, line, length);
        out += length;
        line += length;
    }
    *out = '\0';
}

static void every_report_reads_as_written_here(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        struct story story;
        reports[i].make(&story);
        char *text = text_of(&story, (struct finding_origin){4242, -1, 0, NULL, NULL});
        strip_prefixes(text);
        assert_string_equal(text, reports[i].text);
        free(text);
    }
}

/* Stands in for stack_interned_frames(). */
static size_t frames_of(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    (void)from;
    assert_true(max >= 2);
    out[0] = (struct stack_frame){.is_python = 1, .function = "forward", .file = "model.py", .line = (int)stack};
    out[1] = (struct stack_frame){.is_python = 1, .function = "step", .file = "train.py", .line = 40};
    return 2;
}

static void a_buffer_tells_where_it_was_allocated_and_freed(void **state)
{
    (void)state;
    struct story story;
    use_after_free(&story);
    for (size_t i = 0; i < story.memory.near_count; i++) {
        story.near[i].allocated_stack = 120;
        story.near[i].freed_stack = story.near[i].freed_ns ? 130 : 0;
        story.near[i].freed_ago = story.near[i].freed_ns ? 1200 : 0;
        story.near[i].redzone_before = 256;
        story.near[i].redzone_after = 312;
    }
    story.memory.frames.read = frames_of;
    char *text = text_of(&story, (struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_non_null(strstr(text, "             allocated at  model.py:120 in forward\n"
                                 "==4242==                            train.py:40 in step\n"
                                 "==4242==              freed"));
    assert_non_null(strstr(text, " on stream 0x5581c8, about 1200 allocations ago\n"));
    assert_non_null(
        strstr(text, "\n==4242==              redzone       256 bytes before and 312 after: it shares its page with others\n"));
    assert_non_null(strstr(text, "             freed at      model.py:130 in forward\n"
                                 "==4242==                            train.py:40 in step\n"));
    free(text);
}

static void a_deep_stack_leads_to_the_programs_own_line(void **state)
{
    (void)state;
    enum { DEPTH = 12 };
    struct stack_frame frames[DEPTH] = {0};
    for (int i = 0; i < DEPTH; i++) {
        frames[i] = (struct stack_frame){.is_python = 1,
                                         .file = "/venv/lib/python3.12/site-packages/torch/nn/module.py",
                                         .function = "call",
                                         .line = 100 + i};
    }
    strcpy(frames[DEPTH - 2].file, "/home/me/train.py");
    cufence_description place = {.place = CUFENCE_PLACE_FREED, .buffer = world[F]};
    const struct misuse misuse = {.kind = "double free",
                                  .call = "cuMemFree",
                                  .sentence = "has been freed before",
                                  .address = place.buffer.address,
                                  .place = &place,
                                  .frames = frames,
                                  .frame_count = DEPTH};
    char *text = told_misuse(finding_text, &misuse, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_non_null(text);
    strip_prefixes(text);
    assert_non_null(strstr(text, "  called at  torch/nn/module.py:100 in call\n"
                                 "             torch/nn/module.py:101 in call\n"
                                 "             torch/nn/module.py:102 in call\n"
                                 "             torch/nn/module.py:103 in call\n"
                                 "             torch/nn/module.py:104 in call\n"
                                 "             torch/nn/module.py:105 in call\n"
                                 "             torch/nn/module.py:106 in call, called through 3 more\n"
                                 "             /home/me/train.py:110 in call, called through 1 more\n"
                                 "  address "));
    assert_non_null(strstr(text, "\n  at /home/me/train.py:110 in call, on GPU 0\n"));
    free(text);
}

static void a_call_on_the_host_is_told_in_the_same_words(void **state)
{
    (void)state;
    cufence_description place = {.place = CUFENCE_PLACE_FREED, .buffer = world[F]};
    strcpy(place.buffer.label, "layer 3");
    place.buffer.allocated_stack = 120;
    place.buffer.freed_stack = 130;
    struct stack_frame frames[2];
    const struct misuse misuse = {.kind = "host write out of bounds",
                                  .call = "cuMemcpyHtoD",
                                  .sentence = "writes 4 bytes from byte 0 of buffer #3, which has been freed",
                                  .address = place.buffer.address,
                                  .place = &place,
                                  .frames = frames,
                                  .frame_count = frames_of(NULL, 41, frames, 2),
                                  .now_ns = 73000000,
                                  .buffer_frames = {frames_of, NULL}};
    char *text = told_misuse(finding_text, &misuse, &(struct finding_origin){4242, 1, 0, NULL, NULL});
    assert_non_null(text);
    strip_prefixes(text);
    assert_string_equal(
        text,
        "cufence: host write out of bounds by cuMemcpyHtoD: writes 4 bytes from byte 0 of buffer #3, which has been freed\n"
        "  at model.py:41 in forward, on GPU 0, rank 1\n"
        "\n"
        "  called at  model.py:41 in forward\n"
        "             train.py:40 in step\n"
        "  address    0x7e000c5ff9c0                                                           exact\n"
        "  buffer     #3, 1600 bytes [0x7e000c5ff9c0, 0x7e000c600000), stream 0x5581c0,\n"
        "             label \"layer 3\"\n"
        "             allocated     72.9 ms ago by thread 4242\n"
        "             allocated at  model.py:120 in forward\n"
        "                           train.py:40 in step\n"
        "             freed         23 ms ago by thread 4243 on stream 0x5581c8\n"
        "             freed at      model.py:130 in forward\n"
        "                           train.py:40 in step\n"
        "SUMMARY: cufence: host write out of bounds at model.py:41 in forward: cuMemcpyHtoD: "
        "writes 4 bytes from byte 0 of buffer #3, which has been freed\n");
    free(text);
}

static char *race_text(enum access_kind access, const struct earlier_use *use)
{
    const cufence_description place = {.place = CUFENCE_PLACE_INSIDE, .buffer = world[A]};
    const struct misuse misuse = {.kind = "stream race",
                                  .call = "cuMemFreeAsync",
                                  .sentence = "what it did",
                                  .address = place.buffer.address,
                                  .access = access,
                                  .bytes = 16,
                                  .place = &place,
                                  .now_ns = 73000000,
                                  .earlier = use};
    char *text = told_misuse(finding_text, &misuse, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_non_null(text);
    strip_prefixes(text);
    return text;
}

static void a_stream_race_has_two_places(void **state)
{
    (void)state;
    struct stack_frame frames[2];
    const struct launch_entry entry = {.grid = {8, 1, 1}, .block = {128, 1, 1}};
    struct earlier_use use = {.kernel = "_Z5scalePfi",
                              .entry = &entry,
                              .stream = 0x5581c0,
                              .by_stream = 0x5581c8,
                              .tid = 4243,
                              .time_ns = 50000000,
                              .frames = frames,
                              .frame_count = frames_of(NULL, 41, frames, 2)};
    char *text = race_text(ACCESS_UNKNOWN, &use);
    assert_non_null(strstr(text, "  in use by  scale<<<(8,1,1), (128,1,1)>>>                                          derived\n"
                                 "             23 ms ago by thread 4243 on stream 0x5581c0\n"
                                 "             from          model.py:41 in forward\n"
                                 "                           train.py:40 in step\n"
                                 "  order      stream 0x5581c8 has not waited for an event after that work, and       derived\n"
                                 "             neither has the host\n"
                                 "  address    "));
    assert_non_null(strstr(text, "  hint       call tensor.record_stream(stream) or"));
    free(text);
    use = (struct earlier_use){.call = "cuMemcpyAsync", .by_host = 1, .stream = 0x5581c0, .tid = 4243};
    text = race_text(ACCESS_WRITE, &use);
    assert_non_null(strstr(text, "  in use by  cuMemcpyAsync                                                          derived\n"
                                 "             by thread 4243 on stream 0x5581c0\n"
                                 "  order      this call does not wait for that stream"));
    assert_non_null(strstr(text, "  hint       let the stream of this call wait"));
    free(text);
}

static void a_call_that_meets_no_buffer_names_the_address(void **state)
{
    (void)state;
    const cufence_description place = {.place = CUFENCE_PLACE_UNKNOWN};
    const struct misuse misuse = {.kind = "invalid free",
                                  .call = "cuMemFree",
                                  .sentence = "0x10 was not allocated by cufence",
                                  .address = 16,
                                  .place = &place};
    char *text = told_misuse(finding_text, &misuse, &(struct finding_origin){4242, -1, -1, NULL, NULL});
    assert_non_null(text);
    strip_prefixes(text);
    assert_string_equal(text, "cufence: invalid free by cuMemFree: 0x10 was not allocated by cufence\n"
                              "  on a GPU\n"
                              "\n"
                              "  address    0x10                                                                     exact\n"
                              "SUMMARY: cufence: invalid free: cuMemFree: 0x10 was not allocated by cufence\n");
    free(text);
}

static void a_fault_without_evidence_says_why(void **state)
{
    (void)state;
    char *text = told_unexplained(finding_text, "its core dump (7 bytes) cannot be read: it is not an ELF file",
                                  &(struct finding_origin){4242, 1, -1, NULL, NULL});
    assert_non_null(text);
    strip_prefixes(text);
    assert_string_equal(text, "cufence: unexplained fault of a kernel\n"
                              "  on a GPU, rank 1\n"
                              "\n"
                              "  reason     its core dump (7 bytes) cannot be read: it is not an ELF file\n"
                              "SUMMARY: cufence: unexplained: unexplained fault of a kernel\n");
    free(text);
}

static void the_device_is_named_as_well_as_it_can_be(void **state)
{
    (void)state;
    static const struct {
        int device;
        const char *given, *dumped, *place;
    } cases[] = {
        {3, "Tesla T4", "ignored", " on GPU 3 (Tesla T4)\n==4242== \n"},
        {0, NULL, "", " on GPU 0\n==4242== \n"},
        {-1, NULL, "H\n100", " on a GPU (H?100)\n==4242== \n"},
        {-1, "", "ignored", " on a GPU\n==4242== \n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct story story;
        overrun(&story);
        strcpy(story.evidence.device_name, cases[i].dumped);
        char *text = text_of(&story, (struct finding_origin){4242, -1, cases[i].device, cases[i].given, NULL});
        assert_non_null(strstr(text, cases[i].place));
        free(text);
    }
}

static void headlines_name_the_access(void **state)
{
    (void)state;
    static const struct {
        enum access_kind access;
        uint32_t bytes;
        const char *known, *unknown;
    } cases[] = {
        {ACCESS_UNKNOWN, 0, "out-of-bounds access, 0 bytes past", "illegal memory access (address unknown)\n"},
        {ACCESS_UNKNOWN, 4, "out-of-bounds access of 4 bytes, 0 bytes past", "illegal memory access (address unknown)\n"},
        {ACCESS_READ, 1, "out-of-bounds READ of 1 byte, 0 bytes past", "illegal memory access by a READ (address unknown)\n"},
        {ACCESS_WRITE, 16, "out-of-bounds WRITE of 16 bytes, 0 bytes past",
         "illegal memory access by a WRITE (address unknown)\n"},
        {ACCESS_ATOMIC, 0, "out-of-bounds ATOMIC, 0 bytes past", "illegal memory access by an ATOMIC (address unknown)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int is_known = 0; is_known < 2; is_known++) {
            struct story story;
            overrun(&story);
            story.sites[0].access = cases[i].access;
            story.sites[0].access_bytes = cases[i].bytes;
            story.lanes[0].certainty = story.lanes[1].certainty = is_known ? CERTAIN_EXACT : CERTAIN_NOT;
            char *text = text_of(&story, (struct finding_origin){1, -1, 0, NULL, NULL});
            const char *expected = is_known ? cases[i].known : cases[i].unknown;
            assert_int_equal(strncmp(text + strlen("==1== cufence: "), expected, strlen(expected)), 0);
            free(text);
        }
    }
}

static char *hint(const struct finding *finding)
{
    return strdup(finding->hint);
}

/* The hint of a story that `change` changes. */
static void expect_hint(void (*make)(struct story *story), void (*change)(struct story *story), const char *expected)
{
    struct story story;
    struct diagnosis diagnosis;
    make(&story);
    if (change)
        change(&story);
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    char *text = told_fault(hint, &diagnosis, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    if (!*expected)
        assert_string_equal(text, "");
    else if (!strstr(text, expected))
        fail_msg("\"%s\" has no \"%s\"", text, expected);
    free(text);
}

static void by_one_thread(struct story *story)
{
    story->sites[0].lane_count = 1;
}

static void from_afar(struct story *story)
{
    story->lanes[0].address += 4000;
    story->lanes[1].address += 4000;
}

static void of_odd_elements(struct story *story)
{
    story->sites[0].access_bytes = 16;
    story->near[0].size -= 4;
}

static void of_few_threads(struct story *story)
{
    story->sites[0].grid[0] = 7;
}

static void two_before(struct story *story)
{
    story->lanes[0].address -= 4;
}

static void one_before(struct story *story)
{
    story->lanes[0].address += 28; /* underrun() is 32 bytes before the start */
}

static void on_its_own_stream(struct story *story)
{
    for (size_t i = 0; i < story->memory.near_count; i++)
        story->near[i].free_stream = story->entries[0].stream;
}

static void of_a_freed_buffer(struct story *story)
{
    for (size_t i = 0; i < story->memory.near_count; i++) {
        story->near[i].freed_ns = 50000000;
        story->near[i].free_stream = 0x1234;
        story->near[i].is_mapped = 0;
    }
    story->lanes[0].address = story->lanes[1].address = A_START + 40;
}

/* The launch's arguments: 100 and the row's length, 40. Thread (8,25,0) of the whole grid, in row 25 of 25. */
static void in_the_row_behind(struct story *story)
{
    struct evidence_site *site = &story->sites[0];
    story->parameters[0] = 100;
    story->parameters[2] = 40;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    site->grid[0] = story->entries[0].grid[0] = 2;
    site->grid[1] = story->entries[0].grid[1] = 4;
    site->block[0] = story->entries[0].block[0] = 32;
    site->block[1] = story->entries[0].block[1] = 8;
    site->block_index[0] = 0;
    site->block_index[1] = 3;
    site->lane_count = 1;
    story->lanes[0].thread[0] = 8;
    story->lanes[0].thread[1] = 1;
    story->lanes[0].address = A_START + 4 * (25 * 40 + 8);
}

static void two_rows_behind(struct story *story)
{
    in_the_row_behind(story);
    story->lanes[0].address += 4 * 40;
}

/* Block 3 of 8 rows is rows 24 to 31. */
static void by_another_row(struct story *story)
{
    in_the_row_behind(story);
    story->lanes[0].thread[1] = 2;
}

static void with_rows_of_no_argument(struct story *story)
{
    in_the_row_behind(story);
    story->parameters[2] = 39;
    memcpy(story->entries[0].bytes, story->parameters, 20);
}

/* The grid is as wide as a row. */
static void in_a_grid_as_wide_as_a_row(struct story *story)
{
    with_rows_of_no_argument(story);
    story->sites[0].grid[0] = story->entries[0].grid[0] = 1;
    story->sites[0].block[0] = story->entries[0].block[0] = 40;
}

/* One element a thread, so many that the mask is what is missing, though a row's length is an argument. */
static void in_one_dimension(struct story *story)
{
    story->parameters[0] = 100;
    story->parameters[2] = 125;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    story->sites[0].block_index[0] = 8;
}

/* Row 11, column 8, with a stride of 100 where the rows have 40 elements. */
static void with_another_stride(struct story *story)
{
    in_the_row_behind(story);
    story->parameters[0] = 99;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    story->sites[0].block_index[1] = 1;
    story->lanes[0].thread[1] = 3;
    story->lanes[0].address = A_START + 4 * (11 * 99 + 8);
}

static void with_another_stride_and_column(struct story *story)
{
    with_another_stride(story);
    story->lanes[0].thread[0] = 9;
}

/* Of which the buffer has ten rows, so that it may be the right one. */
static void with_a_stride_that_fits(struct story *story)
{
    with_another_stride(story);
    story->parameters[0] = 100;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    story->lanes[0].address = A_START + 4 * (11 * 100 + 8);
}

/* The free came before the last launch, or before the one before that as well. */
static void freed_before_the_last(struct story *story)
{
    for (size_t i = 0; i < story->memory.near_count; i++) {
        story->near[i].freed_ns = 55000000;
        story->near[i].free_stream = story->entries[0].stream;
        story->near[i].is_mapped = 0;
    }
    story->lanes[0].address = story->lanes[1].address = A_START + 40;
    story->entries[1].time_ns = 50000000;
    story->entries[0].time_ns = 65000000;
    story->memory.launch_count = 2;
    story->parameters[0] = 0;
    story->launches[1].place = story->launches[0].place;
    story->entries[1].bytes[16] ^= 1; /* other arguments: it is clear which launch faulted */
}

static void freed_two_steps_ago(struct story *story)
{
    freed_before_the_last(story);
    story->entries[1].time_ns = 60000000;
}

static void freed_before_one_from_elsewhere(struct story *story)
{
    freed_two_steps_ago(story);
    story->launches[1].place++;
}

static void freed_before_a_graph(struct story *story)
{
    freed_before_the_last(story);
    story->entries[0].time_ns = 50000000;
    story->entries[0].stream = 0x77; /* of the capture */
    story->entries[1] =
        (struct launch_entry){.sequence = 9, .graph = 0x1000, .time_ns = 65000000, .tid = story->entries[0].tid};
}

static void hints_are_for_what_they_know(void **state)
{
    (void)state;
    expect_hint(overrun, NULL,
                "1024 threads run, and the buffer has 1000 elements of 4 bytes: is a bounds check (a mask) missing?");
    expect_hint(overrun, by_one_thread, "one thread went one element too far");
    expect_hint(overrun, from_afar, "");
    expect_hint(overrun, of_odd_elements, "");
    expect_hint(overrun, of_few_threads, "");
    expect_hint(vector_overrun, NULL, "");
    expect_hint(underrun, NULL, "");
    expect_hint(underrun, one_before, "one element before the start");
    expect_hint(underrun, two_before, "");
    expect_hint(null_pointer, NULL, "");
    expect_hint(null_field, NULL, "an offset from a null pointer");
    expect_hint(host_pointer, NULL, "copy the data to the device");
    expect_hint(wild_inside, NULL, "");
    expect_hint(exited, NULL, "");
    expect_hint(assertion, NULL, "");
    expect_hint(misaligned, NULL, "");
    expect_hint(launched, of_a_freed_buffer, "the buffer was freed on stream 0x1234: does an event (or record_stream)");
    expect_hint(use_after_free, on_its_own_stream, "");
    expect_hint(launched_from_two_places, freed_before_a_graph, "a graph was launched after the free: is the kernel in it");
    expect_hint(
        launched, in_the_row_behind,
        "the access is to row 25, and the buffer has 25 rows of 40 elements (argument 2): do the rows count from 0 here?");
    expect_hint(launched, two_rows_behind, "2048 threads run");
    expect_hint(launched, by_another_row, "2048 threads run");
    expect_hint(launched, with_rows_of_no_argument, "2048 threads run");
    expect_hint(launched, in_a_grid_as_wide_as_a_row, "25 rows of 40 elements (the width of the grid)");
    expect_hint(launched, in_one_dimension, "1024 threads run");
    expect_hint(launched, with_another_stride,
                "row and column of the thread fit a stride of 99 (argument 0), but the buffer has 25 rows of 40 (argument 2): "
                "the stride of another shape?");
    expect_hint(launched, with_another_stride_and_column, "2048 threads run");
    expect_hint(launched, with_a_stride_that_fits, "2048 threads run");
    expect_hint(launched_from_two_places, freed_before_the_last, "the kernel was launched after the free");
    expect_hint(launched_from_two_places, freed_two_steps_ago,
                "launched from the same place 1 time before this: does it use a pointer of 2 steps ago?");
    expect_hint(launched_from_two_places, freed_before_one_from_elsewhere, "the kernel was launched after the free");
}

static char *annotation(const struct finding *finding)
{
    return finding_annotation(finding, "/home/me/repo");
}

static void an_annotation_is_one_line_at_the_source(void **state)
{
    (void)state;
    struct story story;
    struct diagnosis diagnosis;
    overrun(&story);
    story.sites[0].file = "/home/me/repo/a,b:\n100%.py";
    story.sites[0].kernel = "void k<int>(int)";
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    char *text = told_fault(annotation, &diagnosis, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_string_equal(text,
                        "::error file=a%2Cb%3A%0A100%25.py,line=9,title=cufence%3A overrun::out-of-bounds WRITE of 4 bytes, "
                        "0 bytes past the end of buffer #1, in k<int>\n");
    free(text);

    const cufence_description place = {.place = CUFENCE_PLACE_UNKNOWN};
    const struct stack_frame frame = {.is_python = 1, .file = "/home/me/repository/train.py", .line = 41};
    struct misuse misuse = {.kind = "invalid free", .call = "cuMemFree", .sentence = "no\nbuffer", .place = &place};
    text = told_misuse(annotation, &misuse, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_string_equal(text, "::error title=cufence%3A invalid free::invalid free by cuMemFree: no%0Abuffer\n");
    free(text);
    misuse.frames = &frame;
    misuse.frame_count = 1;
    text = told_misuse(annotation, &misuse, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_string_equal(text, "::error file=/home/me/repository/train.py,line=41,title=cufence%3A invalid free::"
                              "invalid free by cuMemFree: no%0Abuffer\n");
    free(text);
}

static void names_are_whole_where_that_is_asked_for(void **state)
{
    (void)state;
    struct story story;
    struct diagnosis diagnosis;
    overrun(&story);
    story.sites[0].kernel = "void k_oob<int>(int*)";
    const struct finding_origin origin = {4242, -1, 0, NULL, NULL};
    for (int is_verbose = 0; is_verbose < 2; is_verbose++) {
        struct finding finding;
        fault_diagnose(&story.evidence, &story.memory, &diagnosis);
        finding_of_fault(&finding, &diagnosis, NULL, &origin);
        finding.is_verbose = is_verbose;
        char *text = finding_text(&finding);
        assert_non_null(strstr(text, is_verbose ? "  kernel     void k_oob<int>(int*)<<<" : "  kernel     k_oob<int><<<"));
        assert_non_null(strstr(text, "at oob.py:9 in k_oob<int>, block"));
        free(text);
        finding_free(&finding);
    }
}

static void a_kernel_is_named_as_people_say_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *short_name;
    } cases[] = {
        {"k_oob", "k_oob"},
        {"k_oob(float const*, float*, int)", "k_oob"},
        {"void scale<float, 4>(float*, std::pair<int, int>)", "scale<float, 4>"},
        {"void at::native::elementwise<4, at::native::Add<float>, std::array<char*, 3ul> >(int)",
         "at::native::elementwise<4, at::native::Add<...>, ...>"},
        {"(anonymous namespace)::fill(int*)", "fill"},
        {"void (anonymous namespace)::fill<int>(int*)", "fill<int>"},
        {"std::enable_if<(1 > 0), void>::type odd<8>(int)", "odd<8>"},
        {"weird)>>(", "weird)>>"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct evidence_site site = {.kernel = cases[i].name};
        char name[64];
        finding_kernel(&site, name, sizeof name);
        assert_string_equal(name, cases[i].short_name);
    }
    char name[8];
    finding_kernel(&(struct evidence_site){.symbol = "much_longer_than_that"}, name, sizeof name);
    assert_string_equal(name, "much_lo");
    finding_kernel(&(struct evidence_site){0}, name, sizeof name);
    assert_string_equal(name, "");
}

/* The text of overrun() with the source file at `path`, and the fault in its line `line`. */
static char *text_with_source(const char *path, int line)
{
    struct story story;
    struct diagnosis diagnosis;
    struct finding finding;
    overrun(&story);
    story.sites[0].file = path;
    story.sites[0].line = line;
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    finding_of_fault(&finding, &diagnosis, NULL, &(struct finding_origin){4242, -1, 0, NULL, NULL});
    finding.source_count = source_read(finding.site.file, finding.site.line, finding.source);
    char *text = finding_text(&finding);
    finding_free(&finding);
    assert_non_null(text);
    strip_prefixes(text);
    return text;
}

static void the_source_is_shown_where_it_can_be_read(void **state)
{
    (void)state;
    char path[] = "/tmp/cufence-source-XXXXXX", fifo[sizeof path + 5];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file, "first\n\tsecond \033[2J\r\n%0300d\n", 7);
    fclose(file);

    char *text = text_with_source(path, 2);
    assert_non_null(strstr(text, "\n        1 | first\n  >     2 |  second ?[2J\n        3 | 0000"));
    assert_true(strlen(strstr(text, "3 | ")) > 160 && strcspn(strstr(text, "3 | "), "\n") < 170);
    free(text);
    text = text_with_source(path, 1);
    assert_non_null(strstr(text, "\n  >     1 | first\n        2 | "));
    free(text);

    static const int no_lines[] = {4, 5, 1000000000, 0, -1};
    for (size_t i = 0; i < sizeof no_lines / sizeof no_lines[0]; i++) {
        text = text_with_source(path, no_lines[i]);
        assert_null(strstr(text, " | first"));
        assert_null(strstr(text, " | 0000"));
        free(text);
    }
    file = fopen(path, "w");
    fprintf(file, "%0158d\xc3\xa9\n%0157d\xc3\xa9\n", 1, 2); /* a letter that does not fit, and one that does */
    fclose(file);
    struct source_line lines[SOURCE_LINES];
    assert_int_equal(source_read(path, 1, lines), 2);
    assert_int_equal(strlen(lines[0].text), 158);
    assert_int_equal(strspn(lines[0].text, "01"), 158);
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const no_files[] = {fifo, "/tmp", "/dev/zero", "/nonexistent/file.py"};
    for (size_t i = 0; i < sizeof no_files / sizeof no_files[0]; i++) {
        text = text_with_source(no_files[i], 1);
        assert_null(strstr(text, "1 | "));
        free(text);
    }
    unlink(fifo);
    unlink(path);
}

static void long_and_hostile_names_stay_on_their_line(void **state)
{
    (void)state;
    enum { LENGTH = 100000 };
    char *name = malloc(LENGTH + 1);
    assert_non_null(name);
    memset(name, 'k', LENGTH);
    memcpy(name, "\n==4242== forged \033[2J", strlen("\n==4242== forged \033[2J"));
    name[LENGTH] = '\0';
    struct story story;
    overrun(&story);
    story.sites[0].kernel = story.sites[0].symbol = story.sites[0].file = story.sites[0].instruction = name;
    char *text = text_of(&story, (struct finding_origin){4242, -1, 0, NULL, NULL});
    assert_true(strlen(text) > 3 * LENGTH);
    assert_non_null(strstr(text, "kernel     ?[2J"));
    assert_non_null(strstr(text, "(?==4242== forged ?[2J"));
    assert_non_null(
        strstr(text, "<<<(8,1,1), (128,1,1)>>>  exact\n==4242==              argument word 1 points to this buffer\n"));
    assert_null(strchr(text, '\033'));
    strip_prefixes(text);
    free(text);
    free(name);
}

static void amounts_are_exact_until_they_are_large(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0"},
                 {4000, "4000"},
                 {2093152, "2093152"},
                 {MIB, "1 MiB"},
                 {MIB + 1, "1048577"},
                 {2 * MIB, "2 MiB"},
                 {10 * MIB - 1, "10485759"},
                 {10 * MIB + MIB / 2, "10.5 MiB"},
                 {64 * MIB, "64 MiB"},
                 {GIB - 1, "1023.9 MiB"},
                 {GIB, "1 GiB"},
                 {GIB + GIB / 4, "1.2 GiB"},
                 {UINT64_MAX, "17179869183.9 GiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(amount_of(cases[i].bytes).text, cases[i].text);
}

static void ages_take_the_largest_unit_and_are_no_finer_than_their_clock(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "less than 10 ms"},  {9999999, "less than 10 ms"}, {10000000, "10 ms"},    {12345678, "12.3 ms"},
                 {59900000000, "59.9 s"}, {90000000000, "1.5 min"},     {3600000000000, "1 h"}, {UINT64_MAX, "5124095.5 h"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(age_of(cases[i].ns).text, cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_report_reads_as_written_here),
        cmocka_unit_test(a_buffer_tells_where_it_was_allocated_and_freed),
        cmocka_unit_test(a_deep_stack_leads_to_the_programs_own_line),
        cmocka_unit_test(a_call_on_the_host_is_told_in_the_same_words),
        cmocka_unit_test(a_stream_race_has_two_places),
        cmocka_unit_test(a_call_that_meets_no_buffer_names_the_address),
        cmocka_unit_test(a_fault_without_evidence_says_why),
        cmocka_unit_test(the_device_is_named_as_well_as_it_can_be),
        cmocka_unit_test(headlines_name_the_access),
        cmocka_unit_test(hints_are_for_what_they_know),
        cmocka_unit_test(an_annotation_is_one_line_at_the_source),
        cmocka_unit_test(a_kernel_is_named_as_people_say_it),
        cmocka_unit_test(names_are_whole_where_that_is_asked_for),
        cmocka_unit_test(the_source_is_shown_where_it_can_be_read),
        cmocka_unit_test(long_and_hostile_names_stay_on_their_line),
        cmocka_unit_test(amounts_are_exact_until_they_are_large),
        cmocka_unit_test(ages_take_the_largest_unit_and_are_no_finer_than_their_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
