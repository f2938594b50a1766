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

// A block of elements is decoded, then encoded; it stays in the nearest cache.
constexpr size_t kCastBlock = 256;

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

// Requests the cache lines of the block after the next one. With the processor's own prefetching
// only, F32 to F16 in memory took 1.2 times as long.
inline void PrefetchBlock(const uint8_t* block, size_t byte_length) {
#if defined(__GNUC__)
  constexpr size_t kCacheLine = 64;
  for (size_t i = 0; i < byte_length; i += kCacheLine) __builtin_prefetch(block + i);
#else
  (void)block;
  (void)byte_length;
#endif
}

// The values of a block of float32 in the memory of the source, where they can be read there; else
// null.
template <typename Format>
inline const float* FloatsInPlace(const uint8_t*) {
  return nullptr;
}

template <>
inline const float* FloatsInPlace<Numbers<float>>(const uint8_t* source) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(source) % alignof(float) == 0;
  return is_aligned ? reinterpret_cast<const float*>(source) : nullptr;
}

// The kernel for a cast, where `Decode<Format>` and `Encode<Encoder>` are the loops.
template <template <typename> class Decode, template <typename> class Encode>
struct Casts {
  template <typename Format, typename Encoder>
  static uint64_t Cast(const uint8_t* source, uint8_t* output, size_t count) {
    constexpr size_t kBlockBytes = kCastBlock * Format::kBytes;
    constexpr size_t kTargetBytes = sizeof(typename Encoder::Pattern);
    constexpr bool kCountsInfinity = Encoder::kLargestCounted == kInfinity;
    float block[kCastBlock];
    uint64_t too_large = 0;
    for (size_t done = 0; done < count; done += kCastBlock) {
      const size_t length = count - done < kCastBlock ? count - done : kCastBlock;
      const uint8_t* elements = source + done * Format::kBytes;
      if (count - done >= 3 * kCastBlock) {
        PrefetchBlock(elements + 2 * kBlockBytes, kBlockBytes);
      }
      const float* values = FloatsInPlace<Format>(elements);
      if (values == nullptr) {
        const uint32_t infinite = Decode<Format>::Run(elements, block, length);
        if (!kCountsInfinity) too_large += infinite;
        values = block;
      }
      too_large += Encode<Encoder>::Run(values, output + done * kTargetBytes, length);
    }
    return too_large;
  }

  // `kNan` is what torch makes of NaN when the target is BF16.
  template <typename Format, uint16_t kNan>
  static CastKernel To(Dtype to) {
    switch (to) {
      case Dtype::kF32:
        return Cast<Format, F32Encoder>;
      case Dtype::kF16:
        return Cast<Format, F16Encoder>;
      case Dtype::kBf16:
        return Cast<Format, Bf16Encoder<kNan>>;
      case Dtype::kF8E4M3:
        return Cast<Format, F8E4M3Encoder>;
      case Dtype::kF8E5M2:
        return Cast<Format, F8E5M2Encoder>;
      default:
        return nullptr;
    }
  }

  static CastKernel Select(Dtype from, Dtype to) {
    if (from == to) return nullptr;
    switch (from) {
      case Dtype::kF32:
        return To<Numbers<float>, 0xffff>(to);
      case Dtype::kF64:
        return To<Numbers<double>, 0xffff>(to);
      case Dtype::kF16:
        return To<F16, 0x7fc0>(to);
      case Dtype::kBf16:
        return To<Bf16, 0xffff>(to);
      default:
        return nullptr;
    }
  }
};

}  // namespace

#endif  // SAFETENSORS_MMAP_CAST_FORMATS_H_
