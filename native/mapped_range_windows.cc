// Implements mapped_range.h on Windows.
#include <errno.h>

#include "mapped_range.h"
#include "system_handle_windows.h"
#include "zero_pages_windows.h"

namespace mapped_range {

// For a view whose pages can be copied, Windows promises memory for a copy of the whole file; it
// takes that only for pages that are written. Others may read, write, rename and delete the file as
// far as Windows lets them: `node:fs` opens with all share modes.
int Map(int fd, uint64_t length, uint8_t** base) {
  const HANDLE file = HandleOf(fd);
  LARGE_INTEGER size;
  if (!GetFileSizeEx(file, &size)) return LastErrno();
  if (static_cast<uint64_t>(size.QuadPart) < length) return -ENODATA;
  const OwnedHandle section(CreateFileMappingW(file, nullptr, PAGE_WRITECOPY, 0, 0, nullptr));
  if (!section) {
    const int error = LastErrno();
    return error == -ENOTSUP ? -ENODEV : error;
  }
  // The view keeps the section.
  void* view = MapViewOfFile(section.get(), FILE_MAP_COPY, 0, 0, length);
  if (view == nullptr) return LastErrno();
  *base = static_cast<uint8_t*>(view);
  return 0;
}

int LayZeros(uint8_t* base, uint64_t length) {
  return zero_pages::Replace(base, length);
}

void Unmap(uint8_t* base, uint64_t, bool has_zeros) {
  if (has_zeros) {
    zero_pages::Free(base);
  } else {
    UnmapViewOfFile(base);
  }
}

}  // namespace mapped_range
