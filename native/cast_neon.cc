// As convert_neon.cc: the instructions for F16, in both directions.

#include <arm_neon.h>

#include "cast.h"
#include "cast_formats.h"
#include "convert.h"

namespace {

constexpr size_t kLanes = 4;

template <typename Format>
struct Decode : PlainDecode<Format> {};

template <>
struct Decode<F16> {
  static uint32_t Run(const uint8_t* source, float* block, size_t count) {
    NeonKernel(Dtype::kF16)(source, block, count);
    return 0;
  }
};

template <typename Encoder>
struct Encode : PlainEncode<Encoder> {};

template <>
struct Encode<F16Encoder> {
  static uint32_t Run(const float* block, uint8_t* output, size_t count) {
    const uint32x4_t largest = vdupq_n_u32(F16Encoder::kLargest);
    const uint32x4_t infinity = vdupq_n_u32(kInfinity);
    uint32_t too_large = 0;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const float32x4_t values = vld1q_f32(block + i);
      vst1_u8(output + i * F16::kBytes, vreinterpret_u8_f16(vcvt_f16_f32(values)));
      const uint32x4_t magnitudes = vandq_u32(vreinterpretq_u32_f32(values), vdupq_n_u32(~kSign));
      const uint32x4_t found =
          vandq_u32(vcgtq_u32(magnitudes, largest), vcgtq_u32(infinity, magnitudes));
      too_large += vaddvq_u32(vshrq_n_u32(found, 31));
    }
    return too_large + PlainEncode<F16Encoder>::Run(block + i, output + i * F16::kBytes, count - i);
  }
};

}  // namespace

CastKernel NeonCast(Dtype from, Dtype to) {
  return Casts<Decode, Encode>::Select(from, to);
}
