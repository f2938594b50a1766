// Implements replacement.h on Linux.
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "replacement.h"

namespace {

// RENAME_EXCHANGE of <linux/fs.h>; not every libc has a function that takes it.
constexpr unsigned kRenameExchange = 1u << 1;

// The attribute that holds a list.
constexpr char kAccessList[] = "system.posix_acl_access";

}  // namespace

int Lock(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

int Exchange(const char* path, const char* other) {
  const auto result = syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, kRenameExchange);
  return result == 0 ? 0 : -errno;
}

int CopyAccessList(const char* path, int fd) {
  const ssize_t size = getxattr(path, kAccessList, nullptr, 0);
  if (size == -1 && errno != ENODATA) return -errno;
  if (size <= 0) {
    // A list may have come from the folder.
    const int result = fremovexattr(fd, kAccessList);
    return result == 0 || errno == ENODATA ? 0 : -errno;
  }
  const std::unique_ptr<uint8_t[]> list(new (std::nothrow) uint8_t[static_cast<size_t>(size)]);
  if (!list) return -ENOMEM;
  const ssize_t length = getxattr(path, kAccessList, list.get(), static_cast<size_t>(size));
  if (length == -1) return -errno;
  const int result = fsetxattr(fd, kAccessList, list.get(), static_cast<size_t>(length), 0);
  return result == 0 ? 1 : -errno;
}
