// Pages of memory: where they begin and end, touching them.
#ifndef SAFETENSORS_MMAP_PAGES_H_
#define SAFETENSORS_MMAP_PAGES_H_

#include <stdint.h>
#ifndef _WIN32
#include <unistd.h>
#endif

// The pages in which the system maps memory.

#ifdef _WIN32
// On all processors that Windows runs on.
inline constexpr uintptr_t page_size = 4096;
#else
const uintptr_t page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
#endif

inline uintptr_t PageBegin(uintptr_t address) {
  return address & ~(page_size - 1);
}

inline uintptr_t PageEnd(uintptr_t address) {
  return PageBegin(address + page_size - 1);
}

// Reads one byte of each page of [begin, end). After the end of a file that was cut short, the
// guard turns the signal into zeros; without a guard it ends the process, as any read there would.
inline void TouchPages(const uint8_t* begin, const uint8_t* end) {
  const auto last = reinterpret_cast<uintptr_t>(end);
  for (auto page = PageBegin(reinterpret_cast<uintptr_t>(begin)); page < last; page += page_size) {
    static_cast<void>(*reinterpret_cast<const volatile uint8_t*>(page));
  }
}

#endif  // SAFETENSORS_MMAP_PAGES_H_
