// Implements dequantize.h.
#include "dequantize.h"

#include "block_formats.h"
#include "streaming.h"

namespace {

// Values that are decoded, then multiplied: they stay in the nearest cache. Whole bytes of every
// dtype.
constexpr size_t kValuesAtOnce = 1024;

inline size_t Lesser(size_t a, size_t b) {
  return a < b ? a : b;
}

// Multiplies the values of the columns [begin, end) of a row, each by the scale of its block.
void Multiply(const float* values, const float* scales, size_t block_columns, size_t begin,
              size_t end, float* row, bool streams) {
  size_t block = begin / block_columns;
  for (size_t column = begin; column < end; block++) {
    const size_t block_end = Lesser(end, (block + 1) * block_columns);
    const float scale = scales[block];
    // Loops of a constant length become a few instructions; blocks are often that short.
    for (; column + kStreamLanes <= block_end; column += kStreamLanes) {
      float products[kStreamLanes];
      const float* own = values + (column - begin);
      for (size_t i = 0; i < kStreamLanes; i++) products[i] = own[i] * scale;
      StoreLanes(products, row + column, streams);
    }
    for (; column < block_end; column++) row[column] = values[column - begin] * scale;
  }
}

}  // namespace

void DequantizeRows(const ScaledRows& rows) {
  float values[kValuesAtOnce];
  const size_t row_bytes = rows.columns * rows.bits / 8;
  for (size_t i = 0; i < rows.rows; i++) {
    const uint8_t* source = rows.source + i * row_bytes;
    float* output = rows.output + i * rows.columns;
    const uint64_t block_row = (rows.first_row + i) / rows.block_rows;
    const float* scales = rows.scales + block_row * rows.grid_columns;
    for (size_t begin = 0; begin < rows.columns; begin += kValuesAtOnce) {
      const size_t count = Lesser(rows.columns - begin, kValuesAtOnce);
      rows.decode(source + begin * rows.bits / 8, values, count);
      Multiply(values, scales, rows.block_columns, begin, begin + count, output, rows.streams);
    }
  }
  FinishStores(rows.streams);
}

BlockKernel FindBlockKernel(BlockType type, Level level) {
#if defined(__x86_64__) || defined(_M_X64)
  if (level != Level::kPlain && HasAvx2()) return Avx2BlockKernel(type);
#endif
  return level == Level::kAvx2 ? BlockKernel{} : SelectBlockKernel(type);
}
