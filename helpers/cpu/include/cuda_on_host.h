// CUDA C++ for a host compiler: included before every kernel source, so that one file serves NVRTC and g++.
#pragma once

#include "cuda_host/numerics.h"
#include "cuda_host/sync.h"
#include "cuda_host/types.h"
#include "cuda_host/variables.h"

#include "cuda_host/integers.h"
#include "cuda_host/rounding.h"
#include "cuda_host/intrinsics.h"

#include "cuda_host/refused.h"
