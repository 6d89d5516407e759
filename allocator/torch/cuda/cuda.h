/* For c10 headers that include it and use nothing of it. */
#pragma once
#include "cuda_runtime_api.h"
