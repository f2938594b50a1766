// The dtypes, the block types of GGUF, and the types of the kernels that decode and cast them.
#ifndef SAFETENSORS_MMAP_KERNELS_H_
#define SAFETENSORS_MMAP_KERNELS_H_

#include <stddef.h>
#include <stdint.h>

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

// A cast by way of float32: elements are decoded to a block of it, which is then encoded. Neither
// writes to memory that it reads.
struct CastKernel {
  // Returns how many finite elements became infinite. Null where there is no such cast.
  uint32_t (*decode)(const uint8_t* source, float* block, size_t count);
  // Returns how many values were too large for the dtype: finite ones that became infinite, and for
  // F8_E4M3, which has no infinity, all that became its largest number.
  uint32_t (*encode)(const float* block, uint8_t* output, size_t count);
  // Of an element.
  size_t source_bytes;
  size_t output_bytes;
  // Whether the source is float32 already.
  bool is_float32;
  // Whether `encode` counts infinite values.
  bool counts_infinity;
};

// The block types of GGUF that are decoded here, in the order of NATIVE_BLOCK_TYPES in
// src/tensor/float32/kernels.ts: JavaScript passes the position.
enum class BlockType : uint32_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
};
constexpr uint32_t kBlockTypeCount = 10;

struct BlockKernel {
  // Decodes `count` blocks. Null when the processor or the build has no such instructions.
  void (*decode)(const uint8_t* blocks, float* output, size_t count, bool streams);
  // Of one block.
  size_t byte_length;
  size_t value_count;
};

#endif  // SAFETENSORS_MMAP_KERNELS_H_
