// Implements prefetch.h on POSIX systems.
#include <errno.h>
#include <sys/mman.h>

#include "pages.h"
#include "prefetch.h"

int Populate(const uint8_t* begin, const uint8_t* end, bool) {
  TouchPages(begin, end);
  return 0;
}

void Announce(const uint8_t* begin, const uint8_t* end) {
  const uintptr_t first = PageBegin(reinterpret_cast<uintptr_t>(begin));
  const size_t length = reinterpret_cast<uintptr_t>(end) - first;
  posix_madvise(reinterpret_cast<void*>(first), length, POSIX_MADV_WILLNEED);
}

void AdviseRandom(const uint8_t* begin, const uint8_t* end) {
  posix_madvise(const_cast<uint8_t*>(begin), static_cast<size_t>(end - begin), POSIX_MADV_RANDOM);
}

int64_t ResidentBytes(int, const uint8_t*, const uint8_t*) {
  return -ENOTSUP;
}

int64_t UseHugePages(uint8_t*, uint8_t*) {
  return -ENOTSUP;
}
