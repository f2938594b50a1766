#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "file_copy.h"

namespace {

// The kernel copies less than 2 GiB in one call.
constexpr uint64_t kBytesPerCall = uint64_t{1} << 30;

// Whether the whole range could be read.
bool ReadRange(const SourceRange& range, uint8_t* buffer) {
  uint64_t done = 0;
  while (done < range.length) {
    const auto at = static_cast<off_t>(range.position + done);
    const ssize_t result = pread(range.fd, buffer + done, range.length - done, at);
    if (result == -1 && errno == EINTR) continue;
    if (result <= 0) return false;
    done += static_cast<uint64_t>(result);
  }
  return true;
}

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

int64_t GatherRanges(const SourceRange* ranges, size_t count, size_t length, int target,
                     uint64_t target_position) {
  const std::unique_ptr<uint8_t[]> buffer(new (std::nothrow) uint8_t[length]);
  if (!buffer) return -ENOMEM;
  size_t filled = 0;
  for (size_t i = 0; i < count; i++) {
    if (!ReadRange(ranges[i], buffer.get() + filled)) break;
    filled += ranges[i].length;
  }
  size_t written = 0;
  while (written < filled) {
    const auto at = static_cast<off_t>(target_position + written);
    const ssize_t result = pwrite(target, buffer.get() + written, filled - written, at);
    if (result == -1 && errno == EINTR) continue;
    if (result == -1 && written == 0) return -errno;
    if (result <= 0) break;
    written += static_cast<size_t>(result);
  }
  return static_cast<int64_t>(written);
}
