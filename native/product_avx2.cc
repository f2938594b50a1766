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

// The lower half of each of four masks.
inline __m128i HalvesOf(__m256d masks) {
  const __m256 words = _mm256_castpd_ps(masks);
  const __m128 halves = _mm_shuffle_ps(_mm256_castps256_ps128(words),
                                       _mm256_extractf128_ps(words, 1), _MM_SHUFFLE(2, 0, 2, 0));
  return _mm_castps_si128(halves);
}

// As Narrow, which compilers turn into many more instructions.
uint64_t NarrowFour(const double* totals, float* values, size_t count, bool to_odd) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  const __m128i infinity = _mm_set1_epi32(kInfinity);
  const __m128i odd = _mm_set1_epi32(to_odd ? 1 : 0);
  __m128i found = _mm_setzero_si128();
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256d sums = _mm256_loadu_pd(totals + i);
    const __m128 nearest = _mm256_cvtpd_ps(sums);
    const __m256d back = _mm256_cvtps_pd(nearest);
    const __m256d inexact = _mm256_cmp_pd(back, sums, _CMP_NEQ_UQ);
    const __m256d away =
        _mm256_cmp_pd(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, sums), _CMP_GT_OQ);
    const __m128i cut =
        _mm_sub_epi32(_mm_castps_si128(nearest), _mm_and_si128(HalvesOf(away), odd));
    const __m128i bits = _mm_or_si128(cut, _mm_and_si128(HalvesOf(inexact), odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values + i), bits);
    // A mask is -1.
    found = _mm_sub_epi32(found, _mm_cmpeq_epi32(_mm_and_si128(bits, infinity), infinity));
  }
  uint32_t counts[4];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(counts), found);
  const uint64_t not_finite = uint64_t{counts[0]} + counts[1] + counts[2] + counts[3];
  return not_finite + Narrow(totals + i, values + i, count - i, to_odd);
}

constexpr ProductLoops kLoops = {Widen, Add, NarrowFour};

}  // namespace

const ProductLoops* Avx2ProductLoops() {
  return &kLoops;
}
