// Implements convert_binding.h.
#include "convert_binding.h"

#include <errno.h>

#include "arguments.h"
#include "call.h"
#include "cast.h"
#include "convert.h"
#include "exports.h"
#include "product.h"

namespace {

// convert(dtype, bytes, output, level): 0
struct ConvertCall {
  static constexpr char kName[] = "safetensors-mmap.convert";

  Kernel kernel;
  const uint8_t* source;
  float* output;
  size_t value_count;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t dtype_code;
    uint64_t level_code;
    size_t byte_length;
    if (!ReadSize(info[0], &dtype_code) || dtype_code >= kDtypeCount) return "dtype";
    if (!ReadItems(info[1], &source, &byte_length)) return "bytes";
    if (!ReadItems(info[2], &output, &value_count)) return "output";
    if (!ReadSize(info[3], &level_code) || level_code >= kLevelCount) return "level";
    const auto dtype = static_cast<Dtype>(dtype_code);
    const uint64_t bits = uint64_t{value_count} * BitsPerValue(dtype);
    if (bits != uint64_t{byte_length} * 8) return "output";
    kernel = FindKernel(dtype, static_cast<Level>(level_code));
    return kernel == nullptr ? Failure(-ENOTSUP) : Failure();
  }

  int64_t Run() const {
    kernel(source, output, value_count);
    return 0;
  }
};

bool IsCastSource(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF64 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

// cast(from, to, bytes, output, level): how many elements were too large
struct CastCall {
  static constexpr char kName[] = "safetensors-mmap.cast";

  CastKernel kernel;
  const uint8_t* source;
  uint8_t* output;
  size_t count;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t from_code;
    uint64_t to_code;
    uint64_t level_code;
    size_t byte_length;
    size_t output_length;
    if (!ReadSize(info[0], &from_code) || from_code >= kDtypeCount) return "from";
    if (!ReadSize(info[1], &to_code) || to_code >= kDtypeCount) return "to";
    if (!ReadItems(info[2], &source, &byte_length)) return "bytes";
    if (!ReadItems(info[3], &output, &output_length)) return "output";
    if (!ReadSize(info[4], &level_code) || level_code >= kLevelCount) return "level";
    const auto from = static_cast<Dtype>(from_code);
    const auto to = static_cast<Dtype>(to_code);
    const auto level = static_cast<Level>(level_code);
    if (FindCast(from, to, Level::kPlain).decode == nullptr)
      return IsCastSource(from) ? "to" : "from";
    kernel = FindCast(from, to, level);
    if (kernel.decode == nullptr) return -ENOTSUP;
    const size_t element_bytes = BitsPerValue(from) / 8;
    count = byte_length / element_bytes;
    if (byte_length % element_bytes != 0) return "bytes";
    if (output_length != count * (BitsPerValue(to) / 8)) return "output";
    return {};
  }

  int64_t Run() const { return static_cast<int64_t>(Cast(kernel, source, output, count)); }
};

// addProduct(from, to, bytes, output, left, right, columns, level): how many results are not finite
struct ProductCall {
  static constexpr char kName[] = "safetensors-mmap.addProduct";

  Product product;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t from_code;
    uint64_t to_code;
    uint64_t columns;
    uint64_t level_code;
    size_t byte_length;
    size_t output_length;
    size_t left_length;
    size_t right_length;
    if (!ReadSize(info[0], &from_code) || from_code >= kDtypeCount) return "from";
    if (!ReadSize(info[1], &to_code) || to_code >= kDtypeCount) return "to";
    if (!ReadItems(info[2], &product.bytes, &byte_length)) return "bytes";
    if (!ReadItems(info[3], &product.output, &output_length)) return "output";
    if (!ReadItems(info[4], &product.left, &left_length)) return "left";
    if (!ReadItems(info[5], &product.right, &right_length)) return "right";
    if (!ReadLength(info[6], &columns)) return "columns";
    if (!ReadSize(info[7], &level_code) || level_code >= kLevelCount) return "level";
    const auto level = static_cast<Level>(level_code);
    if (!SelectKernels(static_cast<Dtype>(from_code), static_cast<Dtype>(to_code), level,
                       &product)) {
      return product.loops == nullptr ? Failure(-ENOTSUP) : Failure("from");
    }
    product.columns = columns;
    const size_t count = byte_length / product.element_bytes;
    product.rows = count / columns;
    if (byte_length != count * product.element_bytes || count != product.rows * columns) {
      return "bytes";
    }
    if (output_length != count * product.output_bytes) return "output";
    product.rank = product.rows == 0 ? 0 : left_length / product.rows;
    if (left_length != product.rank * product.rows) return "left";
    product.stride = product.rank == 0 ? 0 : right_length / product.rank;
    const bool has_lanes =
        product.stride >= columns &&
        product.stride - columns >= (kProductLanes - columns % kProductLanes) % kProductLanes;
    if (right_length != product.rank * product.stride || (product.rank > 0 && !has_lanes)) {
      return "right";
    }
    return {};
  }

  int64_t Run() const { return static_cast<int64_t>(AddProduct(product)); }
};

}  // namespace

void ExportConvert(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<ConvertCall>>("convert"),
             Export<RunOnPool<PoolCallOverArrays<ConvertCall, 1>>>("convertAsync"),
             Export<RunHere<CastCall>>("cast"),
             Export<RunOnPool<PoolCallOverArrays<CastCall, 2>>>("castAsync"),
             Export<RunHere<ProductCall>>("addProduct"),
             Export<RunOnPool<PoolCallOverArrays<ProductCall, 2, 4>>>("addProductAsync"),
         });
}
