// Every arm64 processor has NEON, so no check is needed. Compilers vectorise the plain loops; only
// for F16, and for F8_E5M2, the upper byte of an F16, do they miss the processor's instruction.

#include <arm_neon.h>

#include "convert.h"
#include "value_formats.h"

namespace {

constexpr size_t kLanes = 8;

// Source and output may be at any address: bytes are loaded and stored.
inline void StoreHalves(float16x8_t halves, float* output) {
  auto* bytes = reinterpret_cast<uint8_t*>(output);
  vst1q_u8(bytes, vreinterpretq_u8_f32(vcvt_f32_f16(vget_low_f16(halves))));
  vst1q_u8(bytes + 16, vreinterpretq_u8_f32(vcvt_high_f32_f16(halves)));
}

template <typename Format>
struct NeonLoop {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    ConvertLoop<Format>(source, output, value_count);
  }
};

template <>
struct NeonLoop<F16> {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    size_t i = 0;
    for (; i + kLanes <= value_count; i += kLanes) {
      StoreHalves(vreinterpretq_f16_u8(vld1q_u8(source + i * F16::kBytes)), output + i);
    }
    ConvertLoop<F16>(source + i * F16::kBytes, output + i, value_count - i);
  }
};

template <>
struct NeonLoop<F8E5M2> {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    size_t i = 0;
    for (; i + kLanes <= value_count; i += kLanes) {
      const uint16x8_t halves = vshll_n_u8(vld1_u8(source + i), 8);
      StoreHalves(vreinterpretq_f16_u16(halves), output + i);
    }
    ConvertLoop<F8E5M2>(source + i, output + i, value_count - i);
  }
};

}  // namespace

Kernel NeonKernel(Dtype dtype) {
  return SelectKernel<NeonLoop>(dtype);
}
