// Implements product.h.
#include "product.h"

#include <string.h>

#include "cast.h"
#include "product_loops.h"

#if defined(__clang__)
// Elsewhere the language's standard, which binding.gyp names, excludes it.
#pragma STDC FP_CONTRACT OFF
#endif

namespace {

// Columns whose part of `right` stays in the second cache while all rows pass by.
constexpr size_t kColumnsAtOnce = 4 * kProductBlock;

void Add(double* totals, size_t rows, size_t count, const double* left, size_t rank,
         const float* right, size_t stride) {
  for (size_t row = 0; row < rows; row++) {
    for (size_t begin = 0; begin < count; begin += kProductLanes) {
      double* own = totals + row * kProductBlock + begin;
      double lanes[kProductLanes];
      memcpy(lanes, own, sizeof lanes);
      for (size_t k = 0; k < rank; k++) {
        const double factor = left[row * rank + k];
        const float* others = right + k * stride + begin;
        for (size_t i = 0; i < kProductLanes; i++) lanes[i] += factor * others[i];
      }
      memcpy(own, lanes, sizeof lanes);
    }
  }
}

constexpr ProductLoops kPlainLoops = {Widen, Add, Narrow};

const ProductLoops* FindLoops([[maybe_unused]] Level level) {
#if defined(__x86_64__) || defined(_M_X64)
  if (level != Level::kPlain && HasAvx2()) return Avx2ProductLoops();
#endif
  return level == Level::kAvx2 ? nullptr : &kPlainLoops;
}

bool IsFloat(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

// One block: up to `kProductRows` rows and `kProductBlock` columns.
class Block {
 public:
  uint64_t Run(const Product& product, size_t row, size_t column) {
    const size_t rows = Lesser(product.rows - row, kProductRows);
    const size_t count = Lesser(product.columns - column, kProductBlock);
    for (size_t i = 0; i < rows; i++) Read(product, (row + i) * product.columns + column, i, count);
    product.loops->add(totals_, rows, count, product.left + row * product.rank, product.rank,
                       product.right + column, product.stride);
    uint64_t not_finite = 0;
    for (size_t i = 0; i < rows; i++) {
      not_finite += Write(product, (row + i) * product.columns + column, i, count);
    }
    return not_finite;
  }

 private:
  static size_t Lesser(size_t a, size_t b) { return a < b ? a : b; }

  void Read(const Product& product, size_t at, size_t row, size_t count) {
    double* totals = totals_ + row * kProductBlock;
    const uint8_t* bytes = product.bytes + at * product.element_bytes;
    if (product.decode == nullptr) {
      memcpy(totals, bytes, count * sizeof(double));
      return;
    }
    product.decode(bytes, values_, count);
    product.loops->widen(values_, totals, count);
  }

  uint64_t Write(const Product& product, size_t at, size_t row, size_t count) {
    const double* totals = totals_ + row * kProductBlock;
    uint8_t* output = product.output + at * product.output_bytes;
    if (product.output_bytes == sizeof(double)) {
      memcpy(output, totals, count * sizeof(double));
      return 0;
    }
    const bool to_odd = product.encode.decode != nullptr;
    const uint64_t not_finite = product.loops->narrow(totals, values_, count, to_odd);
    const auto* bytes = reinterpret_cast<const uint8_t*>(values_);
    if (to_odd) return not_finite + Cast(product.encode, bytes, output, count);
    memcpy(output, bytes, count * sizeof(float));
    return not_finite;
  }

  // Lanes after the last column are computed, too.
  double totals_[kProductRows * kProductBlock] = {};
  float values_[kProductBlock];
};

}  // namespace

bool SelectKernels(Dtype from, Dtype to, Level level, Product* product) {
  product->loops = FindLoops(level);
  if (product->loops == nullptr || !IsFloat(from) || !IsFloat(to)) return false;
  product->decode = from == Dtype::kF64 ? nullptr : FindKernel(from, level);
  product->encode = to == Dtype::kF64 ? CastKernel{} : FindCast(Dtype::kF32, to, level);
  product->element_bytes = BitsPerValue(from) / 8;
  product->output_bytes = BitsPerValue(to) / 8;
  return true;
}

uint64_t AddProduct(const Product& product) {
  Block block;
  uint64_t not_finite = 0;
  for (size_t begin = 0; begin < product.columns; begin += kColumnsAtOnce) {
    const size_t rest = product.columns - begin;
    const size_t end = begin + (rest < kColumnsAtOnce ? rest : kColumnsAtOnce);
    for (size_t row = 0; row < product.rows; row += kProductRows) {
      for (size_t column = begin; column < end; column += kProductBlock) {
        not_finite += block.Run(product, row, column);
      }
    }
  }
  return not_finite;
}
