/* PyTorch's own build makes this header; those of its packages that have no CUDA lack it. */
#pragma once
#define C10_CUDA_BUILD_SHARED_LIBS
