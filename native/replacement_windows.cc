// Implements replacement.h on Windows.
#include <errno.h>

#include "replacement.h"
#include "system_handle_windows.h"

// Locks of Windows keep others from the locked bytes, whether they ask or not: this is of one byte
// that no file has. Folders have no locks.
int Lock(int fd) {
  OVERLAPPED at = {};
  at.OffsetHigh = MAXLONG;
  constexpr DWORD kFlags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
  if (LockFileEx(HandleOf(fd), kFlags, 0, 1, 0, &at)) return 0;
  const int error = LastErrno();
  return error == -EAGAIN || error == -EBADF ? error : -ENOTSUP;
}

// There is no such call: callers then rename.
int Exchange(const char*, const char*) {
  return -ENOTSUP;
}

// A new file has the list that its folder gives to files.
int CopyAccessList(const char*, int) {
  return -ENOTSUP;
}
