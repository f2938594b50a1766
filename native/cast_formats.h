// How float32 becomes the elements of a dtype, and the loops of a cast.
#ifndef SAFETENSORS_MMAP_CAST_FORMATS_H_
#define SAFETENSORS_MMAP_CAST_FORMATS_H_

#include <stdint.h>
#include <string.h>

#include "kernels.h"
#include "value_formats.h"

// How float32 values become the elements of a dtype, and the loops that cast by way of float32. As
// torch does it, F64 is rounded twice: first to float32.
//
// In an unnamed namespace and without branches for the reasons that value_formats.h gives.
namespace {

constexpr uint32_t kSign = 0x80000000;

inline uint32_t Blend(uint32_t mask, uint32_t a, uint32_t b) {
  return (a & mask) | (b & ~mask);
}

// 1 if a < b <= c, else 0; all below 2^31.
inline uint32_t IsBetween(uint32_t a, uint32_t b, uint32_t c) {
  return MaskIfLess(a, b) & ~MaskIfLess(c, b) & 1;
}

// An encoder has `Pattern`, the type of an element; `Encode`, which makes one of the bits of a
// float32; and says whether that was too large by its magnitude, the bits without the sign: above
// `kLargest` up to `kLargestCounted`.

struct F32Encoder {
  using Pattern = uint32_t;
  static constexpr uint32_t kLargest = kInfinity - 1;
  static constexpr uint32_t kLargestCounted = kInfinity - 1;

  static uint32_t Encode(uint32_t bits) { return bits; }
};

// The bits that become NaN are torch's.
template <uint16_t kNan>
struct Bf16Encoder {
  using Pattern = uint16_t;
  static constexpr uint32_t kLargest = 0x7f7f7fff;
  static constexpr uint32_t kLargestCounted = kInfinity - 1;

  static uint32_t Encode(uint32_t bits) {
    // A carry out of the mantissa increments the exponent, up to that of infinity.
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return Blend(MaskIfLess(kInfinity, bits & ~kSign), kNan, rounded);
  }
};

// `kLimit` is the float32 whose encoding all larger numbers get.
template <int kExponentBits, int kMantissaBits, int kBias, uint32_t kLimit>
struct SmallFloatEncoder {
  static uint32_t EncodeNumber(uint32_t magnitude) {
    constexpr int kShift = 23 - kMantissaBits;
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
    const uint32_t clamped = Blend(MaskIfLess(kLimit, magnitude), kLimit, magnitude);
    // Rounds to nearest, ties to even. A carry increments the exponent, as it should.
    const uint32_t half = (1u << (kShift - 1)) - 1 + ((clamped >> kShift) & 1);
    const uint32_t normal = (clamped - (static_cast<uint32_t>(127 - kBias) << 23) + half) >> kShift;
    // The distance of neighbours of kOne is the smallest number of the format: the addition rounds.
    constexpr uint32_t kOne = static_cast<uint32_t>(127 + 1 - kBias + kShift) << 23;
    const uint32_t subnormal = AsBits(AsFloat(clamped) + AsFloat(kOne)) - kOne;
    return Blend(MaskIfLess(clamped, kSmallestNormal), subnormal, normal);
  }

  static uint32_t Sign(uint32_t bits) {
    return (bits & kSign) >> (31 - kExponentBits - kMantissaBits);
  }
};

// NaN becomes quiet and keeps the upper bits of its payload, as in the processor's own conversion.
struct F16Encoder {
  using Pattern = uint16_t;
  using Format = SmallFloatEncoder<5, 10, 15, 0x47800000>;  // 2^16
  static constexpr uint32_t kLargest = 0x477fefff;          // below 65520
  static constexpr uint32_t kLargestCounted = kInfinity - 1;

  static uint32_t Encode(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t nan = 0x7e00 | ((bits >> 13) & 0x3ff);
    const uint32_t is_nan = MaskIfLess(kInfinity, magnitude);
    return Format::Sign(bits) | Blend(is_nan, nan, Format::EncodeNumber(magnitude));
  }
};

template <typename Format, uint32_t kLargestValue, uint32_t kLargestCountedValue>
struct F8Encoder {
  using Pattern = uint8_t;
  static constexpr uint32_t kLargest = kLargestValue;
  static constexpr uint32_t kLargestCounted = kLargestCountedValue;

  static uint32_t Encode(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t is_nan = MaskIfLess(kInfinity, magnitude);
    return Format::Sign(bits) | Blend(is_nan, 0x7f, Format::EncodeNumber(magnitude));
  }
};

// All above 464, infinity too, become 448.
using F8E4M3Encoder = F8Encoder<SmallFloatEncoder<4, 3, 7, 0x43e00000>, 0x43e80000, kInfinity>;
// All from 61440 on become infinity.
using F8E5M2Encoder = F8Encoder<SmallFloatEncoder<5, 2, 15, 0x47800000>, 0x476fffff, kInfinity - 1>;

// Decodes `count` elements to float32. Returns how many finite ones became infinite.
template <typename Format>
struct PlainDecode {
  static uint32_t Run(const uint8_t* source, float* block, size_t count) {
    ConvertLoop<Format>(source, block, count);
    return 0;
  }
};

template <>
struct PlainDecode<Numbers<float>> {
  static uint32_t Run(const uint8_t* source, float* block, size_t count) {
    memcpy(block, source, count * sizeof(float));
    return 0;
  }
};

template <>
struct PlainDecode<Numbers<double>> {
  static uint32_t Run(const uint8_t* source, float* block, size_t count) {
    ConvertLoop<Numbers<double>>(source, block, count);
    // Infinities after, less those before.
    uint32_t infinite = 0;
    for (size_t i = 0; i < count; i++) infinite += (AsBits(block[i]) & ~kSign) == kInfinity;
    if (infinite == 0) return 0;
    for (size_t i = 0; i < count; i++) {
      uint64_t bits;
      memcpy(&bits, source + i * sizeof bits, sizeof bits);
      infinite -= bits << 1 == uint64_t{0x7ff} << 53;
    }
    return infinite;
  }
};

// Encodes `count` values. Returns how many were too large.
template <typename Encoder>
struct PlainEncode {
  static uint32_t Run(const float* block, uint8_t* output, size_t count) {
    uint32_t too_large = 0;
    for (size_t i = 0; i < count; i++) {
      const uint32_t bits = AsBits(block[i]);
      const auto pattern = static_cast<typename Encoder::Pattern>(Encoder::Encode(bits));
      memcpy(output + i * sizeof pattern, &pattern, sizeof pattern);
      too_large += IsBetween(Encoder::kLargest, bits & ~kSign, Encoder::kLargestCounted);
    }
    return too_large;
  }
};

// The kernel of a cast, where `Decode<Format>` and `Encode<Encoder>` are the loops.
template <template <typename> class Decode, template <typename> class Encode>
struct Casts {
  template <typename Encoder>
  static void SetEncoder(CastKernel* kernel) {
    kernel->encode = Encode<Encoder>::Run;
    kernel->output_bytes = sizeof(typename Encoder::Pattern);
    kernel->counts_infinity = Encoder::kLargestCounted == kInfinity;
  }

  template <typename Format>
  static void SetDecoder(CastKernel* kernel) {
    kernel->decode = Decode<Format>::Run;
    kernel->source_bytes = Format::kBytes;
  }

  static CastKernel Select(Dtype from, Dtype to) {
    CastKernel kernel = {};
    if (from == to) return kernel;
    switch (to) {
      case Dtype::kF32:
        SetEncoder<F32Encoder>(&kernel);
        break;
      case Dtype::kF16:
        SetEncoder<F16Encoder>(&kernel);
        break;
      case Dtype::kBf16:
        // The NaN of PyTorch.
        if (from == Dtype::kF16) SetEncoder<Bf16Encoder<0x7fc0>>(&kernel);
        if (from != Dtype::kF16) SetEncoder<Bf16Encoder<0xffff>>(&kernel);
        break;
      case Dtype::kF8E4M3:
        SetEncoder<F8E4M3Encoder>(&kernel);
        break;
      case Dtype::kF8E5M2:
        SetEncoder<F8E5M2Encoder>(&kernel);
        break;
      default:
        return kernel;
    }
    kernel.is_float32 = from == Dtype::kF32;
    switch (from) {
      case Dtype::kF32:
        SetDecoder<Numbers<float>>(&kernel);
        break;
      case Dtype::kF64:
        SetDecoder<Numbers<double>>(&kernel);
        break;
      case Dtype::kF16:
        SetDecoder<F16>(&kernel);
        break;
      case Dtype::kBf16:
        SetDecoder<Bf16>(&kernel);
        break;
      default:
        break;
    }
    return kernel;
  }
};

}  // namespace

#endif  // SAFETENSORS_MMAP_CAST_FORMATS_H_
