// Implements mapped_range.h on POSIX systems.
#include <errno.h>
#include <sys/mman.h>

#include "mapped_range.h"

namespace mapped_range {

namespace {

// A write by JavaScript must land in a private copy of the page: without PROT_WRITE it would kill
// the process, with MAP_SHARED it would change the file. Without MAP_NORESERVE the kernel would
// demand swap for a copy of the whole file and refuse large ones.
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE;

}  // namespace

int Map(int fd, uint64_t length, uint8_t** base) {
  void* mapped = mmap(nullptr, length, kProtection, kFlags, fd, 0);
  if (mapped == MAP_FAILED) return -errno;
  *base = static_cast<uint8_t*>(mapped);
  return 0;
}

int LayZeros(uint8_t* base, uint64_t length) {
  const void* mapped = mmap(base, length, kProtection, kFlags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return mapped == MAP_FAILED ? -errno : 0;
}

void Unmap(uint8_t* base, uint64_t length, bool) {
  munmap(base, length);
}

}  // namespace mapped_range
