// Surveys and merges elements of several tensors: what merges models.
#ifndef SAFETENSORS_MMAP_MERGE_H_
#define SAFETENSORS_MMAP_MERGE_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "processor.h"
#include "product.h"

struct MergeLoops;

// Elements of one tensor.
struct MergeInput {
  const uint8_t* bytes;
  Kernel decode;
  size_t element_bytes;
};

// The same elements of several tensors. Task vectors are the differences of all others from the
// first one.
struct MergeInputs {
  const MergeInput* inputs;
  size_t count;
  // Position of the first element in its tensor.
  uint64_t first;
  size_t length;
  const MergeLoops* loops;
};

// What a survey adds up, of elements in order. JavaScript passes the number.
enum class Survey : uint32_t {
  // Dot products of all pairs of inputs, in lanes; the rule is whether of task vectors.
  kProducts,
  // Magnitudes of a task vector by the upper bits of their float32, in lanes.
  kUpper,
  // Those with the upper bits of the rule, by the lower ones.
  kLower,
  // How many equal ones of the rule's magnitude are left to keep, and the position of the last one.
  kEqual,
  // The sums of all magnitudes, and of those that the rule selects, in lanes.
  kSums,
};
constexpr uint32_t kSurveyCount = 5;

// How elements are merged. JavaScript passes the number as the first one of the rules.
enum class Merging : uint32_t { kWeighted, kSummed, kVoted };

constexpr size_t kUpperLanes = 4;
constexpr size_t kUpperCount = 1 << 15;
constexpr size_t kLowerCount = 1 << 16;

// Numbers of a selection: 0, all; 1, the largest: bit pattern of the smallest one, and the position
// of the last one that equals it; 2, by chance: key and limit.
constexpr size_t kSelectionLength = 4;
// Before the models: kind, lambda, whether normalized; for a weighted sum only the kind.
constexpr size_t kRulesHead = 3;
// Of each model: factor, weight, selection.
constexpr size_t kRulesOfModel = 2 + kSelectionLength;

// Null for missing instructions.
const MergeLoops* FindMergeLoops(Level level);

// Whether a rule is for the survey, and how many results this has.
bool IsRule(Survey survey, const double* rule, size_t length);
size_t ResultsLength(Survey survey, const double* rule, size_t input_count);

// Whether the rules are for that many inputs.
bool AreRules(const double* rules, size_t length, size_t input_count);

// Adds to the results: the same in pieces of any length, and the same bits as src/merge/models.
// Pure: any thread, any alignment of elements.
void RunSurvey(Survey survey, const MergeInputs& inputs, const double* rule, double* results);

// Merges elements in float64, and rounds once, as `to` does. Returns a count as `AddProduct`. Pure,
// as above.
uint64_t MergeElements(const MergeInputs& inputs, const double* rules, const Product& to,
                       uint8_t* output);

// Compiled for AVX2. Only built for x64.
const MergeLoops* Avx2MergeLoops();

#endif  // SAFETENSORS_MMAP_MERGE_H_
