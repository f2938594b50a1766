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

// The bits of a double's fraction that a float32 lacks.
constexpr int64_t kLowBits = (int64_t{1} << 29) - 1;
// Bit pattern of a float32: smaller ones may have been rounded, since subnormal numbers have fewer
// bits.
constexpr int kLeastExact = 0x01000000;

// As NarrowFour. Clearing the low bits rounds toward zero, and what is left is a float32, unless it
// is very small or too large.
uint64_t NarrowEight(const double* totals, float* values, size_t count, bool to_odd) {
  if (!to_odd) return NarrowFour(totals, values, count, false);
  const __m256d upper = _mm256_castsi256_pd(_mm256_set1_epi64x(~kLowBits));
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i least = _mm256_set1_epi32(kLeastExact);
  const __m256i end = _mm256_set1_epi32(static_cast<int>(kInfinity) - kLeastExact);
  uint64_t not_finite = 0;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256d sums[2] = {_mm256_loadu_pd(totals + i), _mm256_loadu_pd(totals + i + 4)};
    const __m256d cut[2] = {_mm256_and_pd(sums[0], upper), _mm256_and_pd(sums[1], upper)};
    const __m256i bits =
        _mm256_castps_si256(_mm256_set_m128(_mm256_cvtpd_ps(cut[1]), _mm256_cvtpd_ps(cut[0])));
    const __m256i place = _mm256_sub_epi32(_mm256_and_si256(bits, magnitude), least);
    const __m256i is_other = _mm256_cmpeq_epi32(_mm256_max_epu32(place, end), place);
    if (!_mm256_testz_si256(is_other, is_other)) {
      not_finite += NarrowFour(totals + i, values + i, 8, true);
      continue;
    }
    const __m256 inexact = _mm256_shuffle_ps(
        _mm256_castpd_ps(_mm256_cmp_pd(sums[0], cut[0], _CMP_NEQ_UQ)),
        _mm256_castpd_ps(_mm256_cmp_pd(sums[1], cut[1], _CMP_NEQ_UQ)), _MM_SHUFFLE(2, 0, 2, 0));
    // Back in order, as ones.
    const __m256i odd = _mm256_srli_epi32(
        _mm256_permute4x64_epi64(_mm256_castps_si256(inexact), _MM_SHUFFLE(3, 1, 2, 0)), 31);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + i), _mm256_or_si256(bits, odd));
  }
  return not_finite + NarrowFour(totals + i, values + i, count - i, true);
}

constexpr ProductLoops kLoops = {Widen, Add, NarrowEight};

}  // namespace

const ProductLoops* Avx2ProductLoops() {
  return &kLoops;
}
