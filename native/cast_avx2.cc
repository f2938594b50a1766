// Compiled for AVX2 and F16C: nothing here may run before the processor was asked for these, and
// the linker must not take any of it for another file. So this includes no library headers but
// the intrinsics and those of value_formats.h.

#include <immintrin.h>

#include "cast.h"
#include "cast_formats.h"

namespace {

constexpr size_t kLanes = 8;

// Compilers vectorise the plain loops. For F16 the processor has special instructions, which are
// two to three times as fast.

template <typename Format>
struct Decode : PlainDecode<Format> {};

template <>
struct Decode<F16> {
  static uint32_t Run(const uint8_t* source, float* block, size_t count) {
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const auto* halves = reinterpret_cast<const __m128i*>(source + i * F16::kBytes);
      _mm256_storeu_ps(block + i, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
    }
    return PlainDecode<F16>::Run(source + i * F16::kBytes, block + i, count - i);
  }
};

template <typename Encoder>
struct Encode : PlainEncode<Encoder> {};

template <>
struct Encode<F16Encoder> {
  static uint32_t Run(const float* block, uint8_t* output, size_t count) {
    const __m256i largest = _mm256_set1_epi32(F16Encoder::kLargest);
    const __m256i infinity = _mm256_set1_epi32(kInfinity);
    uint32_t too_large = 0;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const __m256 values = _mm256_loadu_ps(block + i);
      auto* halves = reinterpret_cast<__m128i*>(output + i * F16::kBytes);
      _mm_storeu_si128(halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
      const __m256i magnitudes =
          _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(~kSign));
      const __m256i found = _mm256_and_si256(_mm256_cmpgt_epi32(magnitudes, largest),
                                             _mm256_cmpgt_epi32(infinity, magnitudes));
      auto lanes = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(found)));
      for (; lanes != 0; lanes &= lanes - 1) too_large++;
    }
    return too_large + PlainEncode<F16Encoder>::Run(block + i, output + i * F16::kBytes, count - i);
  }
};

}  // namespace

CastKernel Avx2Cast(Dtype from, Dtype to) {
  return Casts<Decode, Encode>::Select(from, to);
}
