// Implements system_handle_windows.h on Windows.
#include "system_handle_windows.h"

#include <errno.h>

int ErrnoOf(DWORD error) {
  switch (error) {
    case ERROR_ACCESS_DENIED:
    case ERROR_WRITE_PROTECT:
      return -EACCES;
    case ERROR_SHARING_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
      return -EBUSY;
    case ERROR_LOCK_VIOLATION:
    case ERROR_IO_PENDING:
      return -EAGAIN;
    case ERROR_INVALID_HANDLE:
      return -EBADF;
    case ERROR_TOO_MANY_OPEN_FILES:
      return -EMFILE;
    // The last five are limits of memory, of which it may be promised but not used yet.
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_COMMITMENT_MINIMUM:
    case ERROR_PAGEFILE_QUOTA:
    case ERROR_NOT_ENOUGH_QUOTA:
    case ERROR_WORKING_SET_QUOTA:
      return -ENOMEM;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return -ENOSPC;
    case ERROR_FILE_TOO_LARGE:
      return -EFBIG;
    case ERROR_INVALID_FUNCTION:
    case ERROR_NOT_SUPPORTED:
    case ERROR_CALL_NOT_IMPLEMENTED:
      return -ENOTSUP;
    case ERROR_INVALID_PARAMETER:
    case ERROR_NEGATIVE_SEEK:
      return -EINVAL;
    case ERROR_NOACCESS:
      return -EFAULT;
    default:
      return -EIO;
  }
}
