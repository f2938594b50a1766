// The inner loops of merges.
#ifndef SAFETENSORS_MMAP_MERGE_LOOPS_H_
#define SAFETENSORS_MMAP_MERGE_LOOPS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "product_loops.h"
#include "value_formats.h"

// Elements that are computed together: all of their arrays stay in the first-level cache.
constexpr size_t kMergeBlock = 256;
// Blocks begin and end at multiples of this many elements.
constexpr size_t kMergeGroup = 16;
// Sums are added up by position modulo this.
constexpr size_t kMergeLanes = 8;

// What a model adds to a vote.
struct Ballot {
  double factor;
  double weight;
};

// Divisors nearer to 0 are replaced by 1.
constexpr double kLeastDivisor = 1e-8;

// Sums of a vote, for every element.
struct Votes {
  double totals[kMergeBlock];
  // Of positive values, and of negative ones.
  double sums[2][kMergeBlock];
  double weights[2][kMergeBlock];
};

// What is drawn of elements: keys of the generator, and the least number that drops one.
struct Chance {
  uint32_t keys[2];
  uint64_t limit;
};

// The loops over values, compiled for several instruction sets. They all give the same bits, those
// of src/merge/models/methods. `count` is a multiple of `kMergeGroup`; masks have all bits or none.
struct MergeLoops {
  void (*widen)(const float* values, double* wide, size_t count);
  void (*subtract)(const float* values, const double* base, double* deltas, size_t count);
  // Bit patterns of the deltas as float32, without the sign.
  void (*magnitudes)(const double* deltas, uint32_t* patterns, size_t count);
  // Keeps patterns from `cut` on.
  void (*largest)(const uint32_t* patterns, uint32_t cut, uint32_t* masks, size_t count);
  // Keeps what is drawn from `position` on, a multiple of `kMergeGroup`.
  void (*draw)(const Chance& chance, uint64_t position, uint32_t* masks, size_t count);
  void (*select)(const uint32_t* masks, double* deltas, size_t count);
  size_t (*count_equal)(const uint32_t* patterns, uint32_t pattern, size_t count);
  // Adds magnitudes to lanes: all of them to the first ones, selected ones to the second ones.
  void (*sum)(const uint32_t* patterns, const uint32_t* masks, double* lanes, size_t count);
  void (*dot)(const double* one, const double* other, double* lanes, size_t count);
  // The products of one with itself, of both, and of the other with itself.
  void (*dots)(const float* one, const float* other, double* lanes, size_t count);
  void (*scale)(const float* values, double factor, double* totals, size_t count);
  void (*add_scaled)(const float* values, double factor, double* totals, size_t count);
  void (*add_delta)(const double* deltas, double factor, double* totals, size_t count);
  void (*add_to_base)(const double* base, double lambda, double* totals, size_t count);
  void (*vote)(const double* deltas, const Ballot& ballot, Votes* votes, size_t count);
  // Replaces the totals by those of the elected sign.
  void (*elect)(bool is_normalized, Votes* votes, size_t count);
};

// In an unnamed namespace for the reasons that value_formats.h gives.
namespace {

inline uint64_t AsBits64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double AsDouble(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint64_t kMagnitudeBits64 = 0x7fffffffffffffff;

inline void Subtract(const float* values, const double* base, double* deltas, size_t count) {
  for (size_t i = 0; i < count; i++) deltas[i] = values[i] - base[i];
}

inline void Magnitudes(const double* deltas, uint32_t* patterns, size_t count) {
  for (size_t i = 0; i < count; i++) {
    patterns[i] = AsBits(static_cast<float>(deltas[i])) & kMagnitudeBits;
  }
}

inline void Largest(const uint32_t* patterns, uint32_t cut, uint32_t* masks, size_t count) {
  for (size_t i = 0; i < count; i++) masks[i] = ~MaskIfLess(patterns[i], cut);
}

inline void Select(const uint32_t* masks, double* deltas, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const auto mask = static_cast<int64_t>(static_cast<int32_t>(masks[i]));
    deltas[i] = AsDouble(AsBits64(deltas[i]) & static_cast<uint64_t>(mask));
  }
}

inline size_t CountEqual(const uint32_t* patterns, uint32_t pattern, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; i++) found += patterns[i] == pattern ? 1 : 0;
  return found;
}

inline void Sum(const uint32_t* patterns, const uint32_t* masks, double* lanes, size_t count) {
  double sums[2 * kMergeLanes];
  memcpy(sums, lanes, sizeof sums);
  for (size_t begin = 0; begin < count; begin += kMergeLanes) {
    for (size_t i = 0; i < kMergeLanes; i++) {
      sums[i] += AsFloat(patterns[begin + i]);
      sums[kMergeLanes + i] += AsFloat(patterns[begin + i] & masks[begin + i]);
    }
  }
  memcpy(lanes, sums, sizeof sums);
}

inline void Dot(const double* one, const double* other, double* lanes, size_t count) {
  double sums[kMergeLanes];
  memcpy(sums, lanes, sizeof sums);
  for (size_t begin = 0; begin < count; begin += kMergeLanes) {
    for (size_t i = 0; i < kMergeLanes; i++) sums[i] += one[begin + i] * other[begin + i];
  }
  memcpy(lanes, sums, sizeof sums);
}

inline void Dots(const float* one, const float* other, double* lanes, size_t count) {
  double sums[3 * kMergeLanes];
  memcpy(sums, lanes, sizeof sums);
  for (size_t begin = 0; begin < count; begin += kMergeLanes) {
    for (size_t i = 0; i < kMergeLanes; i++) {
      const double a = one[begin + i];
      const double b = other[begin + i];
      sums[i] += a * a;
      sums[kMergeLanes + i] += a * b;
      sums[2 * kMergeLanes + i] += b * b;
    }
  }
  memcpy(lanes, sums, sizeof sums);
}

inline void Scale(const float* values, double factor, double* totals, size_t count) {
  for (size_t i = 0; i < count; i++) totals[i] = factor * values[i];
}

inline void AddScaled(const float* values, double factor, double* totals, size_t count) {
  for (size_t i = 0; i < count; i++) totals[i] += factor * values[i];
}

inline void AddDelta(const double* deltas, double factor, double* totals, size_t count) {
  for (size_t i = 0; i < count; i++) totals[i] += factor * deltas[i];
}

inline void AddToBase(const double* base, double lambda, double* totals, size_t count) {
  for (size_t i = 0; i < count; i++) totals[i] = base[i] + lambda * totals[i];
}

// Signs are random: a branch on each would often be predicted wrongly.
inline void Vote(const double* deltas, const Ballot& ballot, Votes* votes, size_t count) {
  const auto [factor, weight] = ballot;
  const uint64_t flip = factor < 0 ? ~uint64_t{0} : 0;
  const uint64_t weight_bits = AsBits64(weight);
  double* totals = votes->totals;
  double* positive = votes->sums[0];
  double* negative = votes->sums[1];
  double* positive_weights = votes->weights[0];
  double* negative_weights = votes->weights[1];
  for (size_t i = 0; i < count; i++) {
    const double value = factor * deltas[i];
    const uint64_t delta = AsBits64(deltas[i]);
    const uint64_t is_negative = (uint64_t{0} - (delta >> 63)) ^ flip;
    const uint64_t magnitude = delta & kMagnitudeBits64;
    // None for a value of 0, which has no weight.
    const uint64_t is_any = uint64_t{0} - ((magnitude + kMagnitudeBits64) >> 63);
    totals[i] += value;
    positive[i] += AsDouble(AsBits64(value) & ~is_negative);
    negative[i] += AsDouble(AsBits64(value) & is_negative);
    positive_weights[i] += AsDouble(weight_bits & is_any & ~is_negative);
    negative_weights[i] += AsDouble(weight_bits & is_any & is_negative);
  }
}

inline void Elect(bool is_normalized, Votes* votes, size_t count) {
  double* totals = votes->totals;
  for (size_t i = 0; i < count; i++) {
    const double vote = totals[i];
    // A sum of 0 counts as positive, and is never -0.
    const uint64_t is_negative = uint64_t{0} - (AsBits64(vote) >> 63);
    const double sum = AsDouble((AsBits64(votes->sums[0][i]) & ~is_negative) |
                                (AsBits64(votes->sums[1][i]) & is_negative));
    const double weight = AsDouble((AsBits64(votes->weights[0][i]) & ~is_negative) |
                                   (AsBits64(votes->weights[1][i]) & is_negative));
    const double magnitude = AsDouble(AsBits64(weight) & kMagnitudeBits64);
    const double divisor = magnitude < kLeastDivisor || !is_normalized ? 1.0 : weight;
    totals[i] = vote == vote ? sum / divisor : vote;
  }
}

constexpr uint32_t kThreefryParity = 0x1bd11bda;
constexpr int kThreefryGroups = 5;
// Rotations of the groups of four rounds with odd numbers, and of the others.
constexpr int kRotations[2][4] = {{17, 29, 16, 24}, {13, 15, 26, 6}};

}  // namespace

#endif  // SAFETENSORS_MMAP_MERGE_LOOPS_H_
