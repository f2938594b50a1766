// Kernels to float32: the choice of one, and the plain ones.
#ifndef SAFETENSORS_MMAP_CONVERT_H_
#define SAFETENSORS_MMAP_CONVERT_H_

#include <stddef.h>
#include <stdint.h>

#include "processor.h"

// Conversion of packed little-endian elements to float32. The kernels are pure: any thread, any
// alignment of source and output, any count. For every dtype of at most 16 bits they give the same
// bits as src/tensor/float32/to-float32.ts.

// In the order of the table in src/header/dtype.ts: JavaScript passes the position.
enum class Dtype : uint32_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
constexpr uint32_t kDtypeCount = 22;

// Writes `value_count` values to `output`. The source holds whole bytes: the count is even for F4
// and a multiple of 4 for the F6 dtypes. Source and output do not overlap, unless the dtype is
// F32 or C64.
using Kernel = void (*)(const uint8_t* source, float* output, size_t value_count);

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
