/* An empty kernel with four arguments, for any device. */
#ifndef CUFENCE_BENCH_EMPTY_PTX_H
#define CUFENCE_BENCH_EMPTY_PTX_H

static const char empty_ptx[] = ".version 6.0\n"
                                ".target sm_50\n"
                                ".address_size 64\n"
                                ".visible .entry empty(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)\n"
                                "{\n"
                                "    ret;\n"
                                "}\n";

#endif
