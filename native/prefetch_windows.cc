// Implements prefetch.h on Windows.
#include <errno.h>

#include "pages.h"
#include "prefetch.h"
#include "system_handle_windows.h"

// A page that cannot be read, of a network drive that is gone or a broken disk, ends the process,
// as any read there would.
int Populate(const uint8_t* begin, const uint8_t* end, bool) {
  Announce(begin, end);
  TouchPages(begin, end);
  return 0;
}

void Announce(const uint8_t* begin, const uint8_t* end) {
  WIN32_MEMORY_RANGE_ENTRY range;
  range.VirtualAddress = const_cast<uint8_t*>(begin);
  range.NumberOfBytes = static_cast<SIZE_T>(end - begin);
  PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

// Windows takes such advice for handles of files only, when they are opened.
void AdviseRandom(const uint8_t*, const uint8_t*) {}

// Windows knows the pages that this process has touched, not those in memory.
int64_t ResidentBytes(int, const uint8_t*, const uint8_t*) {
  return -ENOTSUP;
}

int64_t UseHugePages(uint8_t*, uint8_t*) {
  return -ENOTSUP;
}
