/* Stands in for libcufence_preload.so in tests of `cufence run` alone. */
int run_standin_is_loaded;
