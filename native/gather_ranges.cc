// Copies of many short ranges together, which file_copy.h declares.
#include <errno.h>

#include <algorithm>
#include <memory>
#include <new>

#include "file_copy.h"
#include "file_descriptor.h"

namespace {

// Bytes of short ranges that one write takes. A buffer for all of them is slower: its pages are new
// to the process each time, and the processor's cache is too small for it.
constexpr uint64_t kGatherBytes = uint64_t{256} << 10;

// Reads a whole range; false on failure.
bool ReadRange(const SourceRange& range, uint8_t* buffer) {
  uint64_t done = 0;
  while (done < range.length) {
    const int64_t count =
        ReadAt(range.fd, buffer + done, range.length - done, range.position + done);
    if (count <= 0) return false;
    done += static_cast<uint64_t>(count);
  }
  return true;
}

// Writes the bytes at a position. Returns how many, fewer than `length` where an error came after
// some of them, or a negative errno.
int64_t WriteBytes(int fd, const uint8_t* bytes, uint64_t length, uint64_t position) {
  uint64_t done = 0;
  while (done < length) {
    const int64_t count = WriteAt(fd, bytes + done, length - done, position + done);
    if (count < 0 && done == 0) return count;
    if (count <= 0) break;
    done += static_cast<uint64_t>(count);
  }
  return static_cast<int64_t>(done);
}

}  // namespace

int64_t GatherRanges(const SourceRange* ranges, size_t count, int target,
                     uint64_t target_position) {
  uint64_t capacity = kGatherBytes;
  for (size_t i = 0; i < count; i++) capacity = std::max(capacity, ranges[i].length);
  const std::unique_ptr<uint8_t[]> buffer(new (std::nothrow) uint8_t[capacity]);
  if (!buffer) return -ENOMEM;
  uint64_t written = 0;
  for (size_t i = 0; i < count;) {
    uint64_t filled = 0;
    bool is_read = true;
    while (is_read && i < count && filled + ranges[i].length <= capacity) {
      is_read = ReadRange(ranges[i], buffer.get() + filled);
      if (is_read) filled += ranges[i++].length;
    }
    const int64_t result = WriteBytes(target, buffer.get(), filled, target_position + written);
    if (result < 0 && written == 0) return result;
    if (result > 0) written += static_cast<uint64_t>(result);
    if (!is_read || result != static_cast<int64_t>(filled)) break;
  }
  return static_cast<int64_t>(written);
}
