// The inner loops of products.
#ifndef SAFETENSORS_MMAP_PRODUCT_LOOPS_H_
#define SAFETENSORS_MMAP_PRODUCT_LOOPS_H_

#include <string.h>

#include "kernels.h"
#include "value_formats.h"

constexpr size_t kProductRows = 4;
constexpr size_t kProductBlock = 256;

// The loops over values, compiled for several instruction sets. They all give the same bits, those
// of src/merge/product.ts: products are added one by one, and no instruction does both in one step.
struct ProductLoops {
  void (*widen)(const float* values, double* totals, size_t count);
  // totals[i][j] += left[i][k] * right[k][j] for every k in order, for up to `kProductRows` rows
  // that are `kProductBlock` apart. Computes whole groups of lanes.
  void (*add)(double* totals, size_t rows, size_t count, const double* left, size_t rank,
              const float* right, size_t stride);
  // Rounds to float32: to nearest, or so that rounding to a narrower dtype after it gives the same
  // as rounding once. Returns how many are NaN or infinite.
  uint64_t (*narrow)(const double* totals, float* values, size_t count, bool to_odd);
};

// In an unnamed namespace for the reasons that value_formats.h gives.
namespace {

inline void Widen(const float* values, double* totals, size_t count) {
  for (size_t i = 0; i < count; i++) totals[i] = values[i];
}

// What is not exact gets an odd last bit; a finite value that became infinite becomes the largest
// float32, which a narrower dtype rounds up.
inline uint64_t Narrow(const double* totals, float* values, size_t count, bool to_odd) {
  const uint32_t odd = to_odd ? 1 : 0;
  uint32_t not_finite = 0;
  for (size_t i = 0; i < count; i++) {
    const double sum = totals[i];
    const auto nearest = static_cast<float>(sum);
    const double back = nearest;
    const uint32_t is_inexact = back == sum ? 0 : odd;
    const uint32_t is_away = (back < 0 ? -back : back) > (sum < 0 ? -sum : sum) ? odd : 0;
    const uint32_t bits = (AsBits(nearest) - is_away) | is_inexact;
    values[i] = AsFloat(bits);
    not_finite += (bits & kInfinity) == kInfinity ? 1 : 0;
  }
  return not_finite;
}

}  // namespace

#endif  // SAFETENSORS_MMAP_PRODUCT_LOOPS_H_
