// Codes of quantized weights to float32: rows with a grid of scales, and the blocks of GGUF.
#ifndef SAFETENSORS_MMAP_DEQUANTIZE_H_
#define SAFETENSORS_MMAP_DEQUANTIZE_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "processor.h"

// Pure functions: any thread, any alignment of the source. They give the same bits as the kernels
// in TypeScript: src/quantized/kernels/groups.ts, src/quantized/blocks.

// Rows of a matrix whose values are each a code times the scale of its block. The first row may be
// in the middle of its block.
struct ScaledRows {
  Kernel decode;
  uint32_t bits;
  const uint8_t* source;
  float* output;
  size_t rows;
  // A row has whole bytes.
  size_t columns;
  uint64_t first_row;
  uint64_t block_rows;
  uint64_t block_columns;
  // A row for each row of blocks.
  const float* scales;
  size_t grid_columns;
  // Whether to write the output past the caches: for results that are longer than these.
  bool streams;
};

void DequantizeRows(const ScaledRows& rows);

BlockKernel FindBlockKernel(BlockType type, Level level);

// Compiled for AVX2 and F16C. Only built for x64.
BlockKernel Avx2BlockKernel(BlockType type);

#endif  // SAFETENSORS_MMAP_DEQUANTIZE_H_
