// Implements file_copy.h on Linux.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "file_copy.h"

namespace {

// The kernel copies less than 2 GiB in one call.
constexpr uint64_t kBytesPerCall = uint64_t{1} << 30;

}  // namespace

int Allocate(int fd, uint64_t length) {
  while (fallocate(fd, 0, 0, static_cast<off_t>(length)) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

int64_t CopyFileRange(int source, uint64_t source_position, int target, uint64_t target_position,
                      uint64_t length) {
  uint64_t copied = 0;
  while (copied < length) {
    auto from = static_cast<off_t>(source_position + copied);
    auto to = static_cast<off_t>(target_position + copied);
    const size_t rest = std::min(length - copied, kBytesPerCall);
    const ssize_t count = copy_file_range(source, &from, target, &to, rest, 0);
    if (count == -1 && errno == EINTR) continue;
    if (count == -1 && copied == 0) return -errno;
    if (count <= 0) break;
    copied += static_cast<uint64_t>(count);
  }
  return static_cast<int64_t>(copied);
}
