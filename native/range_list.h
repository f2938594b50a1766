// Many ranges of a mapping as one argument.
#ifndef SAFETENSORS_MMAP_RANGE_LIST_H_
#define SAFETENSORS_MMAP_RANGE_LIST_H_

#include <napi.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "arguments.h"

// A range of a mapping, in bytes.
struct Range {
  uint64_t offset;
  uint64_t length;
};

// Ranges of a mapping, as JavaScript gives them: a Float64Array with two numbers for each, offset
// and length > 0.
class RangeList {
 public:
  // More would make the memory of a call large.
  static constexpr size_t kMaxRanges = 1024;

  // Copies the numbers. False unless all ranges lie in the first `mapped` bytes.
  bool Read(const Napi::Value& value, uint64_t mapped) {
    const double* numbers;
    size_t number_count;
    if (!ReadItems(value, &numbers, &number_count) || number_count % 2 != 0) return false;
    count_ = number_count / 2;
    if (count_ == 0 || count_ > kMaxRanges) return false;
    for (size_t i = 0; i < count_; i++, numbers += 2) {
      Range& range = ranges_[i];
      if (!ReadLength(numbers[1], &range.length) || range.length > mapped) return false;
      if (!ReadSize(numbers[0], &range.offset) || range.offset > mapped - range.length)
        return false;
    }
    return true;
  }

  size_t count() const { return count_; }
  const Range& operator[](size_t i) const { return ranges_[i]; }
  const Range* begin() const { return ranges_.data(); }
  const Range* end() const { return begin() + count_; }

 private:
  std::array<Range, kMaxRanges> ranges_;
  size_t count_ = 0;
};

#endif  // SAFETENSORS_MMAP_RANGE_LIST_H_
