// Implements dequantize_binding.h.
#include "dequantize_binding.h"

#include <errno.h>

#include "arguments.h"
#include "call.h"
#include "convert.h"
#include "dequantize.h"
#include "exports.h"

namespace {

uint64_t Quotient(uint64_t dividend, uint64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0);
}

// dequantizeRows(dtype, bytes, output, scales, columns, firstRow, blockRows, blockColumns,
// gridColumns, streams, level): 0
struct RowsCall {
  ScaledRows rows;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t dtype_code;
    uint64_t columns;
    uint64_t grid_columns;
    uint64_t streams;
    uint64_t level_code;
    size_t byte_length;
    size_t value_count;
    size_t scale_count;
    if (!ReadSize(info[0], &dtype_code) || dtype_code >= kDtypeCount) return "dtype";
    if (!ReadItems(info[1], &rows.source, &byte_length)) return "bytes";
    if (!ReadItems(info[2], &rows.output, &value_count)) return "output";
    if (!ReadItems(info[3], &rows.scales, &scale_count)) return "scales";
    if (!ReadLength(info[4], &columns)) return "columns";
    if (!ReadSize(info[5], &rows.first_row)) return "firstRow";
    if (!ReadLength(info[6], &rows.block_rows)) return "blockRows";
    if (!ReadLength(info[7], &rows.block_columns)) return "blockColumns";
    if (!ReadLength(info[8], &grid_columns)) return "gridColumns";
    if (!ReadSize(info[9], &streams) || streams > 1) return "streams";
    if (!ReadSize(info[10], &level_code) || level_code >= kLevelCount) return "level";
    rows.streams = streams == 1;
    const auto dtype = static_cast<Dtype>(dtype_code);
    rows.bits = BitsPerValue(dtype);
    if (uint64_t{value_count} * rows.bits != uint64_t{byte_length} * 8) return "output";
    rows.columns = columns;
    rows.rows = value_count / columns;
    const bool has_whole_rows = rows.rows * columns == value_count && columns * rows.bits % 8 == 0;
    if (rows.rows > 0 && !has_whole_rows) return "columns";
    if (rows.rows == 0 && value_count > 0) return "columns";
    if (rows.first_row >= rows.block_rows) return "firstRow";
    rows.grid_columns = grid_columns;
    if (grid_columns < Quotient(columns, rows.block_columns)) return "gridColumns";
    const uint64_t grid_rows = Quotient(rows.first_row + rows.rows, rows.block_rows);
    if (rows.rows > 0 && grid_rows > scale_count / grid_columns) return "scales";
    rows.decode = FindKernel(dtype, static_cast<Level>(level_code));
    return rows.decode == nullptr ? Failure(-ENOTSUP) : Failure();
  }

  int64_t Run() const {
    DequantizeRows(rows);
    return 0;
  }
};

// decodeBlocks(type, bytes, output, streams, level): 0
struct BlocksCall {
  BlockKernel kernel;
  const uint8_t* blocks;
  float* output;
  size_t count;
  bool is_streamed;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t type_code;
    uint64_t streams;
    uint64_t level_code;
    size_t byte_length;
    size_t value_count;
    if (!ReadSize(info[0], &type_code) || type_code >= kBlockTypeCount) return "type";
    if (!ReadItems(info[1], &blocks, &byte_length)) return "bytes";
    if (!ReadItems(info[2], &output, &value_count)) return "output";
    if (!ReadSize(info[3], &streams) || streams > 1) return "streams";
    if (!ReadSize(info[4], &level_code) || level_code >= kLevelCount) return "level";
    is_streamed = streams == 1;
    kernel = FindBlockKernel(static_cast<BlockType>(type_code), static_cast<Level>(level_code));
    if (kernel.decode == nullptr) return -ENOTSUP;
    count = byte_length / kernel.byte_length;
    if (byte_length % kernel.byte_length != 0) return "bytes";
    if (value_count != count * kernel.value_count) return "output";
    return {};
  }

  int64_t Run() const {
    kernel.decode(blocks, output, count, is_streamed);
    return 0;
  }
};

}  // namespace

void ExportDequantize(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<RowsCall>>("dequantizeRows"),
             Export<RunHere<BlocksCall>>("decodeBlocks"),
         });
}
