#include "pages.h"
#include "prefetch.h"

int Populate(uint8_t* begin, uint8_t* end, bool) {
  TouchPages(begin, end);
  return 0;
}

int CountResident(int, const uint8_t*, const uint8_t*, int64_t* bytes) {
  *bytes = -1;
  return 0;
}
