// How the elements of each dtype become float32.
#ifndef SAFETENSORS_MMAP_VALUE_FORMATS_H_
#define SAFETENSORS_MMAP_VALUE_FORMATS_H_

#include <stdint.h>
#include <string.h>

#include "kernels.h"

// How the elements of each dtype become float32, and a plain loop over them. There are no branches:
// compilers can turn the loops into vector instructions.
//
// Each file that includes this is compiled for other instructions, and the linker must not take one
// file's copy for the other's. Hence the unnamed namespace, and no library code but memcpy.
namespace {

// A format has `kBytes` bytes that hold `kValues` values, and converts such a group.

template <typename Number>
struct Numbers {
  static constexpr size_t kBytes = sizeof(Number);
  static constexpr size_t kValues = 1;

  static void Convert(const uint8_t* source, float* output) {
    Number number;
    memcpy(&number, source, sizeof number);
    *output = static_cast<float>(number);
  }
};

struct Bool {
  static constexpr size_t kBytes = 1;
  static constexpr size_t kValues = 1;

  static void Convert(const uint8_t* source, float* output) {
    *output = *source != 0 ? 1.0f : 0.0f;
  }
};

// A format that is decoded from the bit pattern of one element, a `Pattern`, to that of a float32.
template <typename Decoder, typename Pattern>
struct Patterns {
  static constexpr size_t kBytes = sizeof(Pattern);
  static constexpr size_t kValues = 1;

  static void Convert(const uint8_t* source, float* output) {
    Pattern pattern;
    memcpy(&pattern, source, sizeof pattern);
    const uint32_t bits = Decoder::Decode(pattern);
    memcpy(output, &bits, sizeof bits);
  }
};

constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuietNan = 0x7fc00000;

inline float AsFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t AsBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// All bits if a < b, else none; both below 2^31. Not a comparison: compilers make branches of
// those.
inline uint32_t MaskIfLess(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(static_cast<int32_t>(a - b) >> 31);
}

// The upper half of a float32.
struct Bf16Decoder {
  static uint32_t Decode(uint32_t pattern) { return pattern << 16; }
};

// An exponent without sign or mantissa; 2^-127 is a subnormal float32.
struct E8M0Decoder {
  static uint32_t Decode(uint32_t pattern) {
    const uint32_t finite = pattern == 0 ? 0x00400000 : pattern << 23;
    return pattern == 0xff ? kQuietNan : finite;
  }
};

// Which patterns are no finite numbers: those of IEEE 754; the one with all bits set but the sign;
// the one of minus zero; none.
enum class Special { kIeee, kAllOnes, kMinusZero, kNone };

template <int kExponentBits, int kMantissaBits, int kBias, Special kSpecial>
struct SmallFloatDecoder {
  static uint32_t Decode(uint32_t pattern) {
    constexpr uint32_t kSignBit = 1u << (kExponentBits + kMantissaBits);
    constexpr uint32_t kExponentMask = ((1u << kExponentBits) - 1) << 23;
    const uint32_t magnitude = pattern & (kSignBit - 1);
    const uint32_t sign = (pattern & kSignBit) << (31 - kExponentBits - kMantissaBits);
    const uint32_t shifted = magnitude << (23 - kMantissaBits);

    // A number of exponent 0 lacks the leading 1: it gets one, which is subtracted again. No
    // operand is a subnormal float32, which some processors are slow with.
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
    const uint32_t is_subnormal = MaskIfLess(shifted, 1u << 23);
    const uint32_t with_one = shifted + kSmallestNormal - (~is_subnormal & (1u << 23));
    uint32_t bits = AsBits(AsFloat(with_one) - AsFloat(is_subnormal & kSmallestNormal));

    if (kSpecial == Special::kIeee) {
      // NaN keeps its payload and becomes quiet, as in the processor's own conversion.
      const uint32_t is_infinite = MaskIfLess(kExponentMask - 1, shifted);
      const uint32_t is_nan = MaskIfLess(kExponentMask, shifted);
      bits |= (is_infinite & kInfinity) | (is_nan & kQuietNan);
    } else if (kSpecial == Special::kAllOnes) {
      const uint32_t is_nan = MaskIfLess(kSignBit - 2, magnitude);
      bits = (bits & ~is_nan) | (is_nan & kQuietNan);
    } else if (kSpecial == Special::kMinusZero) {
      bits |= MaskIfLess(pattern ^ kSignBit, 1) & kQuietNan;
    }
    return sign | bits;
  }
};

using F4Decoder = SmallFloatDecoder<2, 1, 1, Special::kNone>;
using F6E2M3Decoder = SmallFloatDecoder<2, 3, 1, Special::kNone>;
using F6E3M2Decoder = SmallFloatDecoder<3, 2, 3, Special::kNone>;

using F8E5M2 = Patterns<SmallFloatDecoder<5, 2, 15, Special::kIeee>, uint8_t>;
using F8E4M3 = Patterns<SmallFloatDecoder<4, 3, 7, Special::kAllOnes>, uint8_t>;
using F8E8M0 = Patterns<E8M0Decoder, uint8_t>;
using F8E4M3Fnuz = Patterns<SmallFloatDecoder<4, 3, 8, Special::kMinusZero>, uint8_t>;
using F8E5M2Fnuz = Patterns<SmallFloatDecoder<5, 2, 16, Special::kMinusZero>, uint8_t>;
using F16 = Patterns<SmallFloatDecoder<5, 10, 15, Special::kIeee>, uint16_t>;
using Bf16 = Patterns<Bf16Decoder, uint16_t>;

// Two elements in a byte, the first in the low four bits.
struct F4 {
  static constexpr size_t kBytes = 1;
  static constexpr size_t kValues = 2;

  static void Convert(const uint8_t* source, float* output) {
    output[0] = AsFloat(F4Decoder::Decode(*source & 15u));
    output[1] = AsFloat(F4Decoder::Decode(*source >> 4));
  }
};

// Four elements in three bytes, from the lowest bit on.
template <typename Decoder>
struct F6 {
  static constexpr size_t kBytes = 3;
  static constexpr size_t kValues = 4;

  static void Convert(const uint8_t* source, float* output) {
    const uint32_t stream = source[0] | (uint32_t{source[1]} << 8) | (uint32_t{source[2]} << 16);
    for (int i = 0; i < 4; i++) output[i] = AsFloat(Decoder::Decode((stream >> (6 * i)) & 63));
  }
};

using F6E2M3 = F6<F6E2M3Decoder>;
using F6E3M2 = F6<F6E3M2Decoder>;

template <typename Format>
inline void ConvertLoop(const uint8_t* source, float* output, size_t value_count) {
  for (size_t i = 0; i < value_count / Format::kValues; i++) {
    Format::Convert(source + i * Format::kBytes, output + i * Format::kValues);
  }
}

// May overlap: a tensor of float32 can be converted onto itself. An empty array may have a null for
// its address, which memmove must not be given.
inline void CopyFloat32(const uint8_t* source, float* output, size_t value_count) {
  if (value_count == 0) return;
  memmove(output, source, value_count * sizeof(float));
}

// The kernel for a dtype, where `Convert<Format>::Run` is the loop over values of a format.
template <template <typename> class Convert>
inline Kernel SelectKernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return Convert<Bool>::Run;
    case Dtype::kF4:
      return Convert<F4>::Run;
    case Dtype::kF6E2M3:
      return Convert<F6E2M3>::Run;
    case Dtype::kF6E3M2:
      return Convert<F6E3M2>::Run;
    case Dtype::kU8:
      return Convert<Numbers<uint8_t>>::Run;
    case Dtype::kI8:
      return Convert<Numbers<int8_t>>::Run;
    case Dtype::kF8E5M2:
      return Convert<F8E5M2>::Run;
    case Dtype::kF8E4M3:
      return Convert<F8E4M3>::Run;
    case Dtype::kF8E8M0:
      return Convert<F8E8M0>::Run;
    case Dtype::kF8E4M3Fnuz:
      return Convert<F8E4M3Fnuz>::Run;
    case Dtype::kF8E5M2Fnuz:
      return Convert<F8E5M2Fnuz>::Run;
    case Dtype::kI16:
      return Convert<Numbers<int16_t>>::Run;
    case Dtype::kU16:
      return Convert<Numbers<uint16_t>>::Run;
    case Dtype::kF16:
      return Convert<F16>::Run;
    case Dtype::kBf16:
      return Convert<Bf16>::Run;
    case Dtype::kI32:
      return Convert<Numbers<int32_t>>::Run;
    case Dtype::kU32:
      return Convert<Numbers<uint32_t>>::Run;
    case Dtype::kF32:
    case Dtype::kC64:
      return CopyFloat32;
    case Dtype::kF64:
      return Convert<Numbers<double>>::Run;
    case Dtype::kI64:
      return Convert<Numbers<int64_t>>::Run;
    case Dtype::kU64:
      return Convert<Numbers<uint64_t>>::Run;
  }
  return nullptr;
}

}  // namespace

#endif  // SAFETENSORS_MMAP_VALUE_FORMATS_H_
