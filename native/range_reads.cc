// Implements range_reads.h.
#include "range_reads.h"

#include <bitset>
#include <cstring>

#include "file_descriptor.h"
#include "prefetch.h"
#include "resident_pages.h"

namespace {

// Returns 0 or a negative errno.
int ReadRange(int fd, const Range& range, uint8_t* target) {
  uint64_t done = 0;
  while (done < range.length) {
    const int64_t count = ReadAt(fd, target + done, range.length - done, range.offset + done);
    if (count < 0) return static_cast<int>(count);
    if (count == 0) {
      memset(target + done, 0, range.length - done);
      break;
    }
    done += static_cast<uint64_t>(count);
  }
  return 0;
}

}  // namespace

int ReadRanges(const Mapping& mapping, int fd, const RangeList& ranges, uint8_t* target) {
  // Ranges that are announced are on their way together, so the first one alone waits long.
  std::bitset<RangeList::kMaxRanges> missing;
  ResidentPages resident(mapping.base(), mapping.length());
  for (size_t i = 0; fd != -1 && i < ranges.count(); i++) {
    const uint8_t* begin = mapping.base() + ranges[i].offset;
    const uint8_t* end = begin + ranges[i].length;
    missing[i] = !resident.Has(begin, end);
    if (missing[i] && ranges.count() > 1) Announce(begin, end);
  }
  for (size_t i = 0; i < ranges.count(); i++) {
    const Range& range = ranges[i];
    if (!missing[i]) {
      memcpy(target, mapping.base() + range.offset, range.length);
    } else if (const int error = ReadRange(fd, range, target)) {
      return error;
    }
    target += range.length;
  }
  return 0;
}
