// Implements merge.h.
#include "merge.h"

#include <string.h>

#include "cast.h"
#include "merge_loops.h"

#if defined(__clang__)
// Elsewhere the language's standard, which binding.gyp names, excludes it.
#pragma STDC FP_CONTRACT OFF
#endif

namespace {

inline uint32_t RotateLeft(uint32_t word, int bits) {
  return (word << bits) | (word >> (32 - bits));
}

// Threefry-2x32 of 20 rounds, as in src/merge/models/methods/random.ts: two elements have a block.
void Draw(const Chance& chance, uint64_t position, uint32_t* masks, size_t count) {
  const uint32_t keys[3] = {chance.keys[0], chance.keys[1],
                            chance.keys[0] ^ chance.keys[1] ^ kThreefryParity};
  for (size_t i = 0; i < count; i += 2) {
    const uint64_t number = (position + i) / 2;
    uint32_t a = static_cast<uint32_t>(number) + keys[0];
    uint32_t b = static_cast<uint32_t>(number >> 32) + keys[1];
    for (int group = 1; group <= kThreefryGroups; group++) {
      for (const int bits : kRotations[group % 2]) {
        a += b;
        b = RotateLeft(b, bits) ^ a;
      }
      a += keys[group % 3];
      b += keys[(group + 1) % 3] + static_cast<uint32_t>(group);
    }
    masks[i] = a < chance.limit ? ~0u : 0;
    masks[i + 1] = b < chance.limit ? ~0u : 0;
  }
}

constexpr MergeLoops kPlainLoops = {Widen,      Subtract,  Magnitudes, Largest, Draw,  Select,
                                    CountEqual, Sum,       Dot,        Dots,    Scale, AddScaled,
                                    AddDelta,   AddToBase, Vote,       Elect};

// What is kept of a task vector.
struct Selection {
  enum class Kind { kAll, kLargest, kChance };

  Kind kind;
  uint32_t cut;
  // Position of the last element that is kept of those at the cut; may be infinite.
  double last;
  Chance chance;

  explicit Selection(const double* numbers) : kind(static_cast<Kind>(numbers[0])) {
    if (kind == Kind::kLargest) {
      cut = static_cast<uint32_t>(numbers[1]);
      last = numbers[2];
    } else if (kind == Kind::kChance) {
      chance = {{static_cast<uint32_t>(numbers[1]), static_cast<uint32_t>(numbers[2])},
                static_cast<uint64_t>(numbers[3])};
    }
  }
};

// Some elements of all inputs, from a multiple of `kMergeGroup` on, with zeros around them.
class Block {
 public:
  // Calls `run` for all elements of the inputs, block by block.
  template <typename Run>
  static void ForEach(const MergeInputs& inputs, Run run) {
    Block block(inputs);
    for (size_t at = 0; at < inputs.length; at += block.count_) {
      block.MoveTo(at);
      run(block);
    }
  }

  // All values that are computed: those of the elements, and zeros around them.
  size_t padded() const { return padded_; }
  // The elements among the values.
  size_t begin() const { return begin_; }
  size_t end() const { return begin_ + count_; }
  // Position of the first value in the tensor, and that of the first element in the input.
  uint64_t position() const { return position_; }
  size_t at() const { return at_; }
  const double* base() const { return base_; }

  void ReadBase() { inputs_.loops->widen(Decode(0, 0), base_, padded_); }

  void Read(size_t input, double* values) {
    inputs_.loops->widen(Decode(input, 0), values, padded_);
  }

  void ReadDeltas(size_t input, double* deltas) {
    inputs_.loops->subtract(Decode(input, 0), base_, deltas, padded_);
  }

  // What the selection keeps, as masks; false for all.
  bool Choose(const Selection& selection, const uint32_t* patterns, uint32_t* masks) const {
    switch (selection.kind) {
      case Selection::Kind::kAll:
        return false;
      case Selection::Kind::kChance:
        inputs_.loops->draw(selection.chance, position_, masks, padded_);
        return true;
      case Selection::Kind::kLargest: {
        // Elements at the cut are kept up to the last one, which is in one of the blocks.
        const bool are_after = static_cast<double>(position_) > selection.last;
        const uint32_t cut = selection.cut + (are_after ? 1 : 0);
        inputs_.loops->largest(patterns, cut, masks, padded_);
        if (are_after || static_cast<double>(position_ + padded_) <= selection.last) return true;
        for (size_t i = 0; i < padded_; i++) {
          const bool is_after = static_cast<double>(position_ + i) > selection.last;
          if (is_after && patterns[i] == selection.cut) masks[i] = 0;
        }
        return true;
      }
    }
    return false;
  }

  // Values of an input, in memory that the next call with the same place overwrites.
  const float* Decode(size_t input, size_t place) {
    const MergeInput& from = inputs_.inputs[input];
    float* values = values_[place];
    if (count_ != padded_) memset(values, 0, sizeof values_[place]);
    from.decode(from.bytes + at_ * from.element_bytes, values + begin_, count_);
    return values;
  }

 private:
  explicit Block(const MergeInputs& inputs) : inputs_(inputs) {}

  void MoveTo(size_t at) {
    const uint64_t first = inputs_.first + at;
    begin_ = first % kMergeGroup;
    position_ = first - begin_;
    at_ = at;
    const size_t rest = inputs_.length - at;
    count_ = rest < kMergeBlock - begin_ ? rest : kMergeBlock - begin_;
    padded_ = (begin_ + count_ + kMergeGroup - 1) / kMergeGroup * kMergeGroup;
  }

  const MergeInputs& inputs_;
  size_t at_ = 0;
  size_t count_ = 0;
  size_t begin_ = 0;
  size_t padded_ = 0;
  uint64_t position_ = 0;
  float values_[2][kMergeBlock];
  double base_[kMergeBlock];
};

void AddProductsOfTwo(const MergeInputs& inputs, double* lanes) {
  Block::ForEach(inputs, [&](Block& block) {
    inputs.loops->dots(block.Decode(0, 0), block.Decode(1, 1), lanes, block.padded());
  });
}

void AddProducts(const MergeInputs& inputs, bool are_differences, double* lanes) {
  if (inputs.count == 2 && !are_differences) return AddProductsOfTwo(inputs, lanes);
  const size_t begin = are_differences ? 1 : 0;
  double values[2][kMergeBlock];
  Block::ForEach(inputs, [&](Block& block) {
    if (are_differences) block.ReadBase();
    const auto read = [&](size_t input, double* into) {
      if (are_differences) {
        block.ReadDeltas(input, into);
      } else {
        block.Read(input, into);
      }
    };
    double* results = lanes;
    for (size_t one = begin; one < inputs.count; one++) {
      read(one, values[0]);
      for (size_t other = one; other < inputs.count; other++, results += kMergeLanes) {
        if (other != one) read(other, values[1]);
        const double* factor = other == one ? values[0] : values[1];
        inputs.loops->dot(values[0], factor, results, block.padded());
      }
    }
  });
}

// Calls `run` with the magnitudes of a task vector, block by block.
template <typename Run>
void ForEachMagnitudes(const MergeInputs& inputs, Run run) {
  double deltas[kMergeBlock];
  uint32_t patterns[kMergeBlock];
  Block::ForEach(inputs, [&](Block& block) {
    block.ReadBase();
    block.ReadDeltas(1, deltas);
    inputs.loops->magnitudes(deltas, patterns, block.padded());
    run(block, patterns);
  });
}

// Neighbours are counted in several lanes: equal ones would wait for each other.
void CountUpper(const MergeInputs& inputs, double* counts) {
  ForEachMagnitudes(inputs, [&](const Block& block, const uint32_t* patterns) {
    for (size_t i = block.begin(); i < block.end(); i++) {
      counts[i % kUpperLanes * kUpperCount + (patterns[i] >> 16)]++;
    }
  });
}

void CountLower(const MergeInputs& inputs, uint32_t upper, double* counts) {
  ForEachMagnitudes(inputs, [&](const Block& block, const uint32_t* patterns) {
    for (size_t i = block.begin(); i < block.end(); i++) {
      if (patterns[i] >> 16 == upper) counts[patterns[i] & 0xffff]++;
    }
  });
}

// Counts down to the last one, whose position it writes.
void FindEqual(const MergeInputs& inputs, uint32_t pattern, double* results) {
  double& left = results[0];
  ForEachMagnitudes(inputs, [&](const Block& block, const uint32_t* patterns) {
    if (left == 0) return;
    // The zeros around elements must not be counted.
    if (block.end() - block.begin() == block.padded()) {
      const auto found =
          static_cast<double>(inputs.loops->count_equal(patterns, pattern, block.padded()));
      if (found < left) {
        left -= found;
        return;
      }
    }
    for (size_t i = block.begin(); i < block.end() && left > 0; i++) {
      if (patterns[i] != pattern) continue;
      left--;
      if (left == 0) results[1] = static_cast<double>(block.position() + i);
    }
  });
}

void AddSums(const MergeInputs& inputs, const double* rule, double* lanes) {
  const Selection selection(rule);
  uint32_t masks[kMergeBlock];
  ForEachMagnitudes(inputs, [&](const Block& block, const uint32_t* patterns) {
    if (!block.Choose(selection, patterns, masks)) memset(masks, 0xff, sizeof masks);
    inputs.loops->sum(patterns, masks, lanes, block.padded());
  });
}

// Rounds and writes the results of a block.
class Writer {
 public:
  Writer(const Product& to, uint8_t* output) : to_(to), output_(output) {}

  void Write(const Block& block, const double* totals) {
    const size_t count = block.end() - block.begin();
    const bool to_odd = to_.encode.decode != nullptr;
    not_finite_ += to_.loops->narrow(totals + block.begin(), values_, count, to_odd);
    uint8_t* output = output_ + block.at() * to_.output_bytes;
    const auto* bytes = reinterpret_cast<const uint8_t*>(values_);
    if (to_odd) {
      not_finite_ += Cast(to_.encode, bytes, output, count);
    } else {
      memcpy(output, bytes, count * sizeof(float));
    }
  }

  uint64_t not_finite() const { return not_finite_; }

 private:
  const Product& to_;
  uint8_t* output_;
  uint64_t not_finite_ = 0;
  float values_[kMergeBlock];
};

void AddWeighted(const MergeInputs& inputs, const double* coefficients, Writer* writer) {
  double totals[kMergeBlock];
  Block::ForEach(inputs, [&](Block& block) {
    inputs.loops->scale(block.Decode(0, 0), coefficients[0], totals, block.padded());
    for (size_t input = 1; input < inputs.count; input++) {
      inputs.loops->add_scaled(block.Decode(input, 0), coefficients[input], totals, block.padded());
    }
    writer->Write(block, totals);
  });
}

void AddTaskVectors(const MergeInputs& inputs, const double* rules, Writer* writer) {
  const bool is_voted = static_cast<Merging>(rules[0]) == Merging::kVoted;
  const double lambda = rules[1];
  const bool is_normalized = rules[2] != 0;
  const MergeLoops& loops = *inputs.loops;
  double deltas[kMergeBlock];
  uint32_t patterns[kMergeBlock];
  uint32_t masks[kMergeBlock];
  Votes votes;
  Block::ForEach(inputs, [&](Block& block) {
    const size_t count = block.padded();
    block.ReadBase();
    memset(&votes, 0, is_voted ? sizeof votes : sizeof votes.totals);
    for (size_t input = 1; input < inputs.count; input++) {
      const double* own = rules + kRulesHead + (input - 1) * kRulesOfModel;
      const Selection selection(own + 2);
      block.ReadDeltas(input, deltas);
      if (selection.kind == Selection::Kind::kLargest) loops.magnitudes(deltas, patterns, count);
      if (block.Choose(selection, patterns, masks)) loops.select(masks, deltas, count);
      if (is_voted) {
        loops.vote(deltas, {own[0], own[1]}, &votes, count);
      } else {
        loops.add_delta(deltas, own[0], votes.totals, count);
      }
    }
    if (is_voted) loops.elect(is_normalized, &votes, count);
    loops.add_to_base(block.base(), lambda, votes.totals, count);
    writer->Write(block, votes.totals);
  });
}

bool IsWord(double number, double end) {
  return number >= 0 && number < end;
}

constexpr double kWordEnd = 4294967296.0;

bool IsSelection(const double* numbers) {
  if (numbers[0] == 0) return true;
  if (numbers[0] == 1) return IsWord(numbers[1], kWordEnd / 2);
  return numbers[0] == 2 && IsWord(numbers[1], kWordEnd) && IsWord(numbers[2], kWordEnd) &&
         IsWord(numbers[3], kWordEnd + 1);
}

}  // namespace

const MergeLoops* FindMergeLoops([[maybe_unused]] Level level) {
#if defined(__x86_64__) || defined(_M_X64)
  if (level != Level::kPlain && HasAvx2()) return Avx2MergeLoops();
#endif
  return level == Level::kAvx2 ? nullptr : &kPlainLoops;
}

bool IsRule(Survey survey, const double* rule, size_t length) {
  if (survey == Survey::kSums) return length == kSelectionLength && IsSelection(rule);
  return length == 1 && IsWord(rule[0], kWordEnd / 2);
}

size_t ResultsLength(Survey survey, const double* rule, size_t input_count) {
  switch (survey) {
    case Survey::kProducts: {
      const size_t count = rule[0] == 0 ? input_count : input_count - 1;
      return count * (count + 1) / 2 * kMergeLanes;
    }
    case Survey::kUpper:
      return kUpperLanes * kUpperCount;
    case Survey::kLower:
      return kLowerCount;
    case Survey::kEqual:
      return 2;
    case Survey::kSums:
      return 2 * kMergeLanes;
  }
  return 0;
}

bool AreRules(const double* rules, size_t length, size_t input_count) {
  if (length == 0) return false;
  if (rules[0] == static_cast<double>(Merging::kWeighted)) return length == 1 + input_count;
  const bool is_known = rules[0] == static_cast<double>(Merging::kSummed) ||
                        rules[0] == static_cast<double>(Merging::kVoted);
  if (!is_known || length != kRulesHead + (input_count - 1) * kRulesOfModel) return false;
  for (size_t at = kRulesHead; at < length; at += kRulesOfModel) {
    if (!IsSelection(rules + at + 2)) return false;
  }
  return true;
}

void RunSurvey(Survey survey, const MergeInputs& inputs, const double* rule, double* results) {
  switch (survey) {
    case Survey::kProducts:
      return AddProducts(inputs, rule[0] != 0, results);
    case Survey::kUpper:
      return CountUpper(inputs, results);
    case Survey::kLower:
      return CountLower(inputs, static_cast<uint32_t>(rule[0]), results);
    case Survey::kEqual:
      return FindEqual(inputs, static_cast<uint32_t>(rule[0]), results);
    case Survey::kSums:
      return AddSums(inputs, rule, results);
  }
}

uint64_t MergeElements(const MergeInputs& inputs, const double* rules, const Product& to,
                       uint8_t* output) {
  Writer writer(to, output);
  if (static_cast<Merging>(rules[0]) == Merging::kWeighted) {
    AddWeighted(inputs, rules + 1, &writer);
  } else {
    AddTaskVectors(inputs, rules, &writer);
  }
  return writer.not_finite();
}
