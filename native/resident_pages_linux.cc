// Implements resident_pages.h on Linux.
#include <sys/mman.h>

#include <algorithm>

#include "pages.h"
#include "resident_pages.h"

bool ResidentPages::Has(const uint8_t* begin, const uint8_t* end) {
  const uintptr_t last = (reinterpret_cast<uintptr_t>(end) - 1) / page_size;
  for (uintptr_t page = reinterpret_cast<uintptr_t>(begin) / page_size; page <= last; page++) {
    const uintptr_t number = page / kPagesPerBlock;
    Block& block = blocks_[number % kBlocks];
    if (block.number != number + 1) block = {number + 1, Ask(number)};
    if ((block.pages >> (page % kPagesPerBlock) & 1) == 0) return false;
  }
  return true;
}

// Of files that the process neither owns nor could write to, mincore says that everything is in
// memory. Without an answer we say the same.
uint64_t ResidentPages::Ask(uintptr_t number) const {
  const uintptr_t block = number * kPagesPerBlock * page_size;
  const uintptr_t begin = std::max(block, PageBegin(reinterpret_cast<uintptr_t>(base_)));
  const uintptr_t end =
      std::min(block + kPagesPerBlock * page_size, reinterpret_cast<uintptr_t>(base_) + length_);
  unsigned char resident[kPagesPerBlock];
  if (mincore(reinterpret_cast<void*>(begin), end - begin, resident) != 0) return ~uint64_t{0};
  uint64_t pages = 0;
  for (uintptr_t page = begin; page < end; page += page_size) {
    const uint64_t bit = resident[(page - begin) / page_size] & 1;
    pages |= bit << (page / page_size % kPagesPerBlock);
  }
  return pages;
}
