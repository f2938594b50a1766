// Kernels from one floating-point dtype to another: the choice of one, and the plain ones.
#ifndef SAFETENSORS_MMAP_CAST_H_
#define SAFETENSORS_MMAP_CAST_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "processor.h"

// Casts of packed little-endian elements to another floating-point dtype: F32, F64, F16 and BF16 to
// F32, F16, BF16, F8_E4M3 and F8_E5M2. They give the same bits as src/tensor/float32/cast.ts.

// Without `decode` when there is no such cast.
CastKernel FindCast(Dtype from, Dtype to, Level level);

// Writes `count` elements to `output`, which does not overlap the source. Returns how many were too
// large for the dtype. Pure: any thread, any alignment, any count.
uint64_t Cast(const CastKernel& kernel, const uint8_t* source, uint8_t* output, size_t count);

// Kernels compiled for AVX2 and F16C, which a processor without these cannot run. Only built for
// x64.
CastKernel Avx2Cast(Dtype from, Dtype to);

// Kernels for NEON. Only built for arm64, where every processor has it.
CastKernel NeonCast(Dtype from, Dtype to);

#endif  // SAFETENSORS_MMAP_CAST_H_
