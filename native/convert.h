// Kernels to float32: the choice of one, and the plain ones.
#ifndef SAFETENSORS_MMAP_CONVERT_H_
#define SAFETENSORS_MMAP_CONVERT_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "processor.h"

// Conversion of packed little-endian elements to float32. The kernels are pure: any thread, any
// alignment of source and output, any count. For every dtype of at most 16 bits they give the same
// bits as src/tensor/float32/to-float32.ts.

// Null when the processor or the build has no such instructions.
Kernel FindKernel(Dtype dtype, Level level);

// Bits of the source for one value of the output; C64 has two values per element.
uint32_t BitsPerValue(Dtype dtype);

// Kernels compiled for AVX2 and F16C, which a processor without these cannot run. Only built for
// x64.
Kernel Avx2Kernel(Dtype dtype);

// Kernels for NEON. Only built for arm64, where every processor has it.
Kernel NeonKernel(Dtype dtype);

#endif  // SAFETENSORS_MMAP_CONVERT_H_
