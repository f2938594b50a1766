// Implements quarantine.h.
#include "quarantine.h"

#include "mutex.h"

namespace {

// Each range is a separate mapping to the kernel, whose default limit is 65 530 of them.
constexpr size_t kMaxRanges = 4096;

// Addresses, not memory: below a hundredth of the 128 TB that a process has.
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

// The mutex protects all that follows. The ring owns a reference for each pointer; they are plain
// pointers because nothing may be unmapped at exit, when threads of the pool can still be reading.
Mutex mutex;
Mapping* ring[kMaxRanges];
size_t oldest = 0;
size_t count = 0;
uint64_t bytes = 0;

void DropOldest() {
  const MappingRef mapping = MappingRef::Adopt(ring[oldest]);
  oldest = (oldest + 1) % kMaxRanges;
  count--;
  bytes -= mapping->length();
  mapping->UnmapEmptied();
}

}  // namespace

void Quarantine(MappingRef mapping) {
  const MutexLock lock(mutex);
  while (count == kMaxRanges || (count > 0 && bytes + mapping->length() > kMaxBytes)) DropOldest();
  bytes += mapping->length();
  ring[(oldest + count) % kMaxRanges] = mapping.Release();
  count++;
}

bool DropOldestOfQuarantine() {
  const MutexLock lock(mutex);
  if (count == 0) return false;
  DropOldest();
  return true;
}
