/* Stands in for libcufence_preload.so where only `cufence run` is tested. */
int run_standin_is_loaded;
