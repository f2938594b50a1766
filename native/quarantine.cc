#include "quarantine.h"

#include <mutex>

namespace {

// Each range is a mapping of its own to the kernel, whose default limit is 65 530 of them.
constexpr size_t kMaxRanges = 4096;

// Addresses, not memory: below a hundredth of the 128 TB that a process has.
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

std::mutex mutex;
Mapping* ring[kMaxRanges];
size_t oldest = 0;
size_t count = 0;
uint64_t bytes = 0;

Mapping* TakeOldest() {
  Mapping* mapping = ring[oldest];
  oldest = (oldest + 1) % kMaxRanges;
  count--;
  bytes -= mapping->length();
  return mapping;
}

}  // namespace

void Quarantine(Mapping* mapping) {
  const std::lock_guard<std::mutex> lock(mutex);
  while (count == kMaxRanges || (count > 0 && bytes + mapping->length() > kMaxBytes)) {
    TakeOldest()->Unref();
  }
  ring[(oldest + count) % kMaxRanges] = mapping;
  count++;
  bytes += mapping->length();
}
