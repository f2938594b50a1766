// The blocks of GGUF: how each type becomes float32.
#ifndef SAFETENSORS_MMAP_BLOCK_FORMATS_H_
#define SAFETENSORS_MMAP_BLOCK_FORMATS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"
#include "streaming.h"
#include "value_formats.h"

// In an unnamed namespace and without library code for the reasons that value_formats.h gives.
//
// A product of a code and its scale is exact in float32, as are products of scales; only the sum
// with a minimum rounds. So compilers may join both in one instruction.
namespace {

inline float HalfAt(const uint8_t* source) {
  float value;
  F16::Convert(source, &value);
  return value;
}

inline uint32_t WordAt(const uint8_t* source) {
  return source[0] | (uint32_t{source[1]} << 8) | (uint32_t{source[2]} << 16) |
         (uint32_t{source[3]} << 24);
}

// Each format has `kBytes` and `kValues` of a block, and decodes one. Loops over codes are short,
// of a constant length, and store to consecutive places: compilers vectorise them.

struct Q4_0 {
  static constexpr size_t kBytes = 18;
  static constexpr size_t kValues = 32;

  static void Decode(const uint8_t* block, float* output) {
    const float scale = HalfAt(block);
    const uint8_t* codes = block + 2;
    for (int i = 0; i < 16; i++) output[i] = static_cast<float>((codes[i] & 15) - 8) * scale;
    for (int i = 0; i < 16; i++) output[16 + i] = static_cast<float>((codes[i] >> 4) - 8) * scale;
  }
};

struct Q4_1 {
  static constexpr size_t kBytes = 20;
  static constexpr size_t kValues = 32;

  static void Decode(const uint8_t* block, float* output) {
    const float scale = HalfAt(block);
    const float minimum = HalfAt(block + 2);
    const uint8_t* codes = block + 4;
    for (int i = 0; i < 16; i++) output[i] = static_cast<float>(codes[i] & 15) * scale + minimum;
    for (int i = 0; i < 16; i++) {
      output[16 + i] = static_cast<float>(codes[i] >> 4) * scale + minimum;
    }
  }
};

// The codes of 5 bits of a block: the fifth bits of all are in one word.
inline void ReadFiveBits(const uint8_t* source, int32_t* codes) {
  const uint32_t high = WordAt(source);
  for (int i = 0; i < 16; i++) {
    codes[i] = static_cast<int32_t>((source[4 + i] & 15u) | (((high >> i) & 1) << 4));
    codes[16 + i] = static_cast<int32_t>((source[4 + i] >> 4) | (((high >> (16 + i)) & 1) << 4));
  }
}

struct Q5_0 {
  static constexpr size_t kBytes = 22;
  static constexpr size_t kValues = 32;

  static void Decode(const uint8_t* block, float* output) {
    const float scale = HalfAt(block);
    int32_t codes[kValues];
    ReadFiveBits(block + 2, codes);
    for (size_t i = 0; i < kValues; i++) output[i] = static_cast<float>(codes[i] - 16) * scale;
  }
};

struct Q5_1 {
  static constexpr size_t kBytes = 24;
  static constexpr size_t kValues = 32;

  static void Decode(const uint8_t* block, float* output) {
    const float scale = HalfAt(block);
    const float minimum = HalfAt(block + 2);
    int32_t codes[kValues];
    ReadFiveBits(block + 4, codes);
    for (size_t i = 0; i < kValues; i++) output[i] = static_cast<float>(codes[i]) * scale + minimum;
  }
};

struct Q8_0 {
  static constexpr size_t kBytes = 34;
  static constexpr size_t kValues = 32;

  static void Decode(const uint8_t* block, float* output) {
    const float scale = HalfAt(block);
    int8_t codes[kValues];
    memcpy(codes, block + 2, sizeof codes);
    for (size_t i = 0; i < kValues; i++) output[i] = static_cast<float>(codes[i]) * scale;
  }
};

struct Q2K {
  static constexpr size_t kBytes = 84;
  static constexpr size_t kValues = 256;

  static void Decode(const uint8_t* block, float* output) {
    const float scales = HalfAt(block + 80);
    const float minimums = HalfAt(block + 82);
    for (int group = 0; group < 16; group++) {
      const float scale = scales * static_cast<float>(block[group] & 15);
      const float minimum = minimums * static_cast<float>(block[group] >> 4);
      const uint8_t* codes = block + 16 + (group >> 3) * 32 + (group & 1) * 16;
      const int shift = group & 6;
      for (int i = 0; i < 16; i++) {
        output[group * 16 + i] = scale * static_cast<float>((codes[i] >> shift) & 3) - minimum;
      }
    }
  }
};

struct Q3K {
  static constexpr size_t kBytes = 110;
  static constexpr size_t kValues = 256;

  static void Decode(const uint8_t* block, float* output) {
    const float scales = HalfAt(block + 108);
    const uint8_t* packed = block + 96;
    for (int group = 0; group < 16; group++) {
      const int low = packed[group & 7] >> ((group >> 3) << 2);
      const int high = packed[8 + (group & 3)] >> ((group >> 2) << 1);
      const float scale = scales * static_cast<float>(((low & 15) | ((high & 3) << 4)) - 32);
      const int column = (group & 1) * 16;
      const uint8_t* codes = block + 32 + (group >> 3) * 32 + column;
      const uint8_t* high_bits = block + column;
      const int shift = group & 6;
      const int bit = group >> 1;
      for (int i = 0; i < 16; i++) {
        const int code = ((codes[i] >> shift) & 3) - 4 + ((high_bits[i] >> bit) & 1) * 4;
        output[group * 16 + i] = scale * static_cast<float>(code);
      }
    }
  }
};

// The scales and minimums of Q4_K and Q5_K: eight of each, of 6 bits, in twelve bytes.
struct SixBits {
  float scales[8];
  float minimums[8];

  explicit SixBits(const uint8_t* block) {
    const float scale = HalfAt(block);
    const float minimum = HalfAt(block + 2);
    const uint8_t* packed = block + 4;
    for (int i = 0; i < 4; i++) {
      scales[i] = scale * static_cast<float>(packed[i] & 63);
      minimums[i] = minimum * static_cast<float>(packed[4 + i] & 63);
      const int high_scale = (packed[8 + i] & 15) | ((packed[i] >> 6) << 4);
      const int high_minimum = (packed[8 + i] >> 4) | ((packed[4 + i] >> 6) << 4);
      scales[4 + i] = scale * static_cast<float>(high_scale);
      minimums[4 + i] = minimum * static_cast<float>(high_minimum);
    }
  }
};

struct Q4K {
  static constexpr size_t kBytes = 144;
  static constexpr size_t kValues = 256;

  static void Decode(const uint8_t* block, float* output) {
    const SixBits six(block);
    for (int pair = 0; pair < 4; pair++) {
      const uint8_t* codes = block + 16 + pair * 32;
      float* values = output + pair * 64;
      const float scale = six.scales[2 * pair];
      const float minimum = six.minimums[2 * pair];
      const float next_scale = six.scales[2 * pair + 1];
      const float next_minimum = six.minimums[2 * pair + 1];
      for (int i = 0; i < 32; i++) values[i] = scale * static_cast<float>(codes[i] & 15) - minimum;
      for (int i = 0; i < 32; i++) {
        values[32 + i] = next_scale * static_cast<float>(codes[i] >> 4) - next_minimum;
      }
    }
  }
};

struct Q5K {
  static constexpr size_t kBytes = 176;
  static constexpr size_t kValues = 256;

  static void Decode(const uint8_t* block, float* output) {
    const SixBits six(block);
    const uint8_t* high_bits = block + 16;
    for (int group = 0; group < 8; group++) {
      const uint8_t* codes = block + 48 + (group >> 1) * 32;
      const int shift = (group & 1) * 4;
      for (int i = 0; i < 32; i++) {
        const int code = ((codes[i] >> shift) & 15) | (((high_bits[i] >> group) & 1) << 4);
        output[group * 32 + i] = six.scales[group] * static_cast<float>(code) - six.minimums[group];
      }
    }
  }
};

struct Q6K {
  static constexpr size_t kBytes = 210;
  static constexpr size_t kValues = 256;

  static void Decode(const uint8_t* block, float* output) {
    const float scales = HalfAt(block + 208);
    // Sixteen columns of four rows of 32 values in each half, each row with a separate scale.
    for (int group = 0; group < 16; group++) {
      const int half = group >> 3;
      const int row = (group >> 1) & 3;
      const int column = (group & 1) * 16;
      const auto packed = static_cast<int8_t>(block[192 + half * 8 + row * 2 + (group & 1)]);
      const float scale = scales * static_cast<float>(packed);
      const uint8_t* codes = block + half * 64 + (row & 1) * 32 + column;
      const uint8_t* high_bits = block + 128 + half * 32 + column;
      const int shift = (row >> 1) * 4;
      const int high_shift = row * 2;
      for (int i = 0; i < 16; i++) {
        const int high = (high_bits[i] >> high_shift) & 3;
        const int code = (((codes[i] >> shift) & 15) | (high << 4)) - 32;
        output[group * 16 + i] = scale * static_cast<float>(code);
      }
    }
  }
};

template <typename Format>
void DecodeBlocks(const uint8_t* blocks, float* output, size_t count, bool streams) {
  static_assert(Format::kValues % kStreamLanes == 0, "");
  float values[Format::kValues];
  for (size_t i = 0; i < count; i++) {
    float* own = output + i * Format::kValues;
    Format::Decode(blocks + i * Format::kBytes, values);
    for (size_t j = 0; j < Format::kValues; j += kStreamLanes) {
      StoreLanes(values + j, own + j, streams);
    }
  }
  FinishStores(streams);
}

template <typename Format>
constexpr BlockKernel KernelOf() {
  return {DecodeBlocks<Format>, Format::kBytes, Format::kValues};
}

inline BlockKernel SelectBlockKernel(BlockType type) {
  switch (type) {
    case BlockType::kQ4_0:
      return KernelOf<Q4_0>();
    case BlockType::kQ4_1:
      return KernelOf<Q4_1>();
    case BlockType::kQ5_0:
      return KernelOf<Q5_0>();
    case BlockType::kQ5_1:
      return KernelOf<Q5_1>();
    case BlockType::kQ8_0:
      return KernelOf<Q8_0>();
    case BlockType::kQ2K:
      return KernelOf<Q2K>();
    case BlockType::kQ3K:
      return KernelOf<Q3K>();
    case BlockType::kQ4K:
      return KernelOf<Q4K>();
    case BlockType::kQ5K:
      return KernelOf<Q5K>();
    case BlockType::kQ6K:
      return KernelOf<Q6K>();
  }
  return {};
}

}  // namespace

#endif  // SAFETENSORS_MMAP_BLOCK_FORMATS_H_
