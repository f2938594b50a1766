// Compiled for AVX2 and F16C: nothing here may run before the processor was asked for these, and
// the linker must not take any of it for another file. So this includes no library headers but
// the intrinsics and those of value_formats.h.

#include <immintrin.h>

#include "convert.h"
#include "value_formats.h"

namespace {

// From 4 MiB of output on, it is written past the caches. Otherwise it would push everything else
// out of them, and each line would first be read from memory.
constexpr size_t kStreamFromValues = 1 << 20;

// Values that are converted together before they are written; they stay in the nearest cache.
constexpr size_t kBlockValues = 256;

constexpr size_t kVectorBytes = 32;

// Converts `kBlockValues` values to a block that is aligned to a vector.
template <typename Format>
struct Block {
  static void Convert(const uint8_t* source, float* block) {
    ConvertLoop<Format>(source, block, kBlockValues);
  }
};

template <>
struct Block<F16> {
  static void Convert(const uint8_t* source, float* block) {
    for (size_t i = 0; i < kBlockValues; i += 8) {
      const auto* halves = reinterpret_cast<const __m128i*>(source + i * F16::kBytes);
      _mm256_store_ps(block + i, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
    }
  }
};

// The upper byte of an F16.
template <>
struct Block<F8E5M2> {
  static void Convert(const uint8_t* source, float* block) {
    for (size_t i = 0; i < kBlockValues; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source + i));
      const __m128i halves = _mm_unpacklo_epi8(_mm_setzero_si128(), bytes);
      _mm256_store_ps(block + i, _mm256_cvtph_ps(halves));
    }
  }
};

// Widens the bytes to words first: in one loop with the decoding this takes a third longer.
template <typename Decoder>
struct Block<Patterns<Decoder, uint8_t>> {
  static void Convert(const uint8_t* source, float* block) {
    alignas(kVectorBytes) uint32_t patterns[kBlockValues];
    for (size_t i = 0; i < kBlockValues; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source + i));
      _mm256_store_si256(reinterpret_cast<__m256i*>(patterns + i), _mm256_cvtepu8_epi32(bytes));
    }
    for (size_t i = 0; i < kBlockValues; i++) block[i] = AsFloat(Decoder::Decode(patterns[i]));
  }
};

// Writes past the caches. `output` is aligned to a vector; other threads see it after the fence.
inline void StreamBlock(const float* block, float* output) {
  for (size_t i = 0; i < kBlockValues; i += 8) {
    _mm256_stream_ps(output + i, _mm256_load_ps(block + i));
  }
}

template <typename Format>
struct StreamingLoop {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    const size_t past_vector = reinterpret_cast<uintptr_t>(output) % kVectorBytes;
    const size_t head = (kVectorBytes - past_vector) % kVectorBytes / sizeof(float);
    // An engine's own buffers are aligned to 16 bytes only; over a mapping any address is possible.
    const bool can_align = past_vector % sizeof(float) == 0 && head % Format::kValues == 0;
    if (value_count < kStreamFromValues || !can_align) {
      ConvertLoop<Format>(source, output, value_count);
      return;
    }
    ConvertLoop<Format>(source, output, head);
    alignas(kVectorBytes) float block[kBlockValues];
    size_t done = head;
    for (; value_count - done >= kBlockValues; done += kBlockValues) {
      Block<Format>::Convert(source + done / Format::kValues * Format::kBytes, block);
      StreamBlock(block, output + done);
    }
    ConvertLoop<Format>(source + done / Format::kValues * Format::kBytes, output + done,
                        value_count - done);
    // Makes the output visible to the thread that is told that the conversion is done.
    _mm_sfence();
  }
};

}  // namespace

Kernel Avx2Kernel(Dtype dtype) {
  return SelectKernel<StreamingLoop>(dtype);
}
