/*
 * Demangled C++ names as people say them. Pure.
 *
 * Left out are return types, parameter lists, what surrounds a lambda, "(anonymous namespace)", inline namespaces of libraries
 * (std::__cxx11, thrust::THRUST_..._NS), and template arguments that are too long, from the innermost out:
 *
 *   void fill<float>(float*, int)                          fill<float>
 *   main::{lambda(int)#1}::operator()(int) const           main::{lambda}
 *   void each<4, Add<float, std::array<int, 2ul> > >(int)  each<4, Add<...>>
 *   kernel_cutlass_oob_tensorptrf32gmemo10001__0           oob (CuTe DSL and cuTile have the arguments in it)
 */
#pragma once

#include <stddef.h>

/* Writes the short name, cut to fit. `most`: of template arguments, in bytes with their brackets. */
void short_name(const char *name, size_t most, char *out, size_t size);

/* Whether the function only passes calls on, such as std::_Function_handler<...>::_M_invoke: it tells a reader nothing. */
int short_name_is_plumbing(const char *function);
