#include <errno.h>

#include "pages.h"
#include "prefetch.h"

int Populate(const uint8_t* begin, const uint8_t* end, bool) {
  TouchPages(begin, end);
  return 0;
}

int64_t ResidentBytes(int, const uint8_t*, const uint8_t*) {
  return -ENOTSUP;
}
