/* Made of mark.cu by ./dev ptx; sha256 of the source: 9432780dd108130f79e9ca88b861e759 */
#ifndef CUFENCE_KERNELS_MARK_PTX_H
#define CUFENCE_KERNELS_MARK_PTX_H

/* clang-format off */
static const char mark_ptx[] =
    ".version 6.4\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .entry cufence_mark(\n"
    " .param .u64 cufence_mark_param_0\n"
    ")\n"
    "{\n"
    " .reg .b64  %rd<4>;\n"
    " ld.param.u64  %rd1, [cufence_mark_param_0];\n"
    " cvta.to.global.u64  %rd2, %rd1;\n"
    " membar.sys;\n"
    " mov.u64  %rd3, 1;\n"
    " st.volatile.global.u64  [%rd2], %rd3;\n"
    " ret;\n"
    "}\n";
/* clang-format on */

#endif
