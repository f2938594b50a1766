// Implements range_reads.h where reads cannot leave out what is on the disk: copies from the
// mapping.
#include <cstring>

#include "range_reads.h"

int ReadRanges(const Mapping& mapping, int, const RangeList& ranges, uint8_t* target) {
  for (const Range& range : ranges) {
    memcpy(target, mapping.base() + range.offset, range.length);
    target += range.length;
  }
  return 0;
}

bool ReadCachedRanges(int, const RangeList&, uint8_t*) {
  return false;
}
