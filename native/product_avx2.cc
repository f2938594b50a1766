// Compiled for AVX2 and F16C: see convert_avx2.cc. Without FMA, whose results differ.

#include <immintrin.h>

#include "product.h"
#include "product_loops.h"

namespace {

// Totals of some rows and eight columns stay in registers.
template <size_t kRows>
void AddRows(double* totals, size_t count, const double* left, size_t rank, const float* right,
             size_t stride) {
  for (size_t begin = 0; begin < count; begin += kProductLanes) {
    __m256d lanes[kRows][2];
    for (size_t row = 0; row < kRows; row++) {
      const double* own = totals + row * kProductBlock + begin;
      lanes[row][0] = _mm256_loadu_pd(own);
      lanes[row][1] = _mm256_loadu_pd(own + 4);
    }
    for (size_t k = 0; k < rank; k++) {
      const float* others = right + k * stride + begin;
      const __m256d low = _mm256_cvtps_pd(_mm_loadu_ps(others));
      const __m256d high = _mm256_cvtps_pd(_mm_loadu_ps(others + 4));
      for (size_t row = 0; row < kRows; row++) {
        const __m256d factor = _mm256_broadcast_sd(left + row * rank + k);
        lanes[row][0] = _mm256_add_pd(lanes[row][0], _mm256_mul_pd(factor, low));
        lanes[row][1] = _mm256_add_pd(lanes[row][1], _mm256_mul_pd(factor, high));
      }
    }
    for (size_t row = 0; row < kRows; row++) {
      double* own = totals + row * kProductBlock + begin;
      _mm256_storeu_pd(own, lanes[row][0]);
      _mm256_storeu_pd(own + 4, lanes[row][1]);
    }
  }
}

void Add(double* totals, size_t rows, size_t count, const double* left, size_t rank,
         const float* right, size_t stride) {
  if (rows == kProductRows) {
    AddRows<kProductRows>(totals, count, left, rank, right, stride);
    return;
  }
  for (size_t row = 0; row < rows; row++) {
    AddRows<1>(totals + row * kProductBlock, count, left + row * rank, rank, right, stride);
  }
}

constexpr ProductLoops kLoops = {Widen, Add, Narrow};

}  // namespace

const ProductLoops* Avx2ProductLoops() {
  return &kLoops;
}
