// Compiled for AVX2 and F16C: nothing here may run before the processor was asked for these, and
// the linker must not take any of it for another file.

#include "block_formats.h"
#include "dequantize.h"

BlockKernel Avx2BlockKernel(BlockType type) {
  return SelectBlockKernel(type);
}
