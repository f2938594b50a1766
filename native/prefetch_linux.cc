// Implements prefetch.h on Linux.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "pages.h"
#include "prefetch.h"

namespace {

// Linux 5.14; not in the headers of older systems, which the addon may be compiled on.
constexpr int kPopulateRead = 22;

// Linux 5.8, the same number on every architecture.
constexpr long kFaccessat2 = 439;

// Pages asked for in one call of mincore, which writes a byte for each.
constexpr size_t kPagesPerCall = 65536;

// On x64, and on arm64 with pages of 4 kB. With larger pages the kernel makes no use of the advice
// for so little memory; reads are right all the same.
constexpr uintptr_t kHugePage = 2 << 20;

// The rule of the kernel (`can_do_mincore` in mm/mincore.c, since 5.2): of files that the process
// neither owns nor could write to, mincore says that everything is in memory. Also false if the
// owner is unknown.
bool ResidencyIsTold(int fd) {
  struct stat file;
  if (fstat(fd, &file) == 0 && file.st_uid == geteuid()) return true;
  return syscall(kFaccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

}  // namespace

int Populate(const uint8_t* begin, const uint8_t* end, bool guarded) {
  const uintptr_t first = PageBegin(reinterpret_cast<uintptr_t>(begin));
  const size_t length = reinterpret_cast<uintptr_t>(end) - first;
  const bool populated = madvise(reinterpret_cast<void*>(first), length, kPopulateRead) == 0;
  if (!populated && (errno == EFAULT || errno == EHWPOISON)) return -EIO;
  if (!populated && errno != EINVAL) return -errno;
  // EINVAL comes from an older kernel: touching does the work. After success it helps virtual
  // machines, whose host gives a page its memory only when a processor touches it, not when the
  // disk fills it. Measured: 0.5 to 1.5 s for 2 GB, which here overlap with the reading of the next
  // window, and would otherwise slow down the reader's loop.
  if (!populated || guarded) TouchPages(begin, end);
  return 0;
}

void Announce(const uint8_t* begin, const uint8_t* end) {
  const uintptr_t first = PageBegin(reinterpret_cast<uintptr_t>(begin));
  const size_t length = reinterpret_cast<uintptr_t>(end) - first;
  madvise(reinterpret_cast<void*>(first), length, MADV_WILLNEED);
}

void AdviseRandom(const uint8_t* begin, const uint8_t* end) {
  madvise(const_cast<uint8_t*>(begin), static_cast<size_t>(end - begin), MADV_RANDOM);
}

int64_t ResidentBytes(int fd, const uint8_t* begin, const uint8_t* end) {
  if (!ResidencyIsTold(fd)) return -ENOTSUP;
  unsigned char resident[kPagesPerCall];
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const auto last = reinterpret_cast<uintptr_t>(end);
  uintptr_t bytes = 0;
  for (uintptr_t window = PageBegin(first); window < last; window += kPagesPerCall * page_size) {
    const size_t length = std::min(last - window, kPagesPerCall * page_size);
    if (mincore(reinterpret_cast<void*>(window), length, resident) != 0) return -errno;
    for (uintptr_t offset = 0; offset < length; offset += page_size) {
      if ((resident[offset / page_size] & 1) == 0) continue;
      const uintptr_t page = window + offset;
      bytes += std::min(page + page_size, last) - std::max(page, first);
    }
  }
  return static_cast<int64_t>(bytes);
}

int64_t UseHugePages(uint8_t* begin, uint8_t* end) {
  const uintptr_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
  const auto length = static_cast<uintptr_t>(end - begin);
  if (length < before + kHugePage) return -ENOTSUP;
  const uintptr_t whole = (length - before) / kHugePage * kHugePage;
  if (madvise(begin + before, whole, MADV_HUGEPAGE) != 0) return -ENOTSUP;
  return static_cast<int64_t>(before);
}
