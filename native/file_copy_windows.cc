// Implements file_copy.h on Windows.
#include <errno.h>

#include "file_copy.h"
#include "system_handle_windows.h"

// A file that is made longer gets its space at once, and zeros are written only where a later write
// leaves a gap.
int Allocate(int fd, uint64_t length) {
  const HANDLE file = HandleOf(fd);
  LARGE_INTEGER size;
  if (!GetFileSizeEx(file, &size)) return LastErrno();
  if (static_cast<uint64_t>(size.QuadPart) >= length) return 0;
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(length);
  const bool works = SetFileInformationByHandle(file, FileEndOfFileInfo, &end, sizeof end);
  return works ? 0 : LastErrno();
}

// The system copies whole files by their paths, no ranges.
int64_t CopyFileRange(int, uint64_t, int, uint64_t, uint64_t) {
  return -ENOTSUP;
}
