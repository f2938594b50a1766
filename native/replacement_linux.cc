#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replacement.h"

namespace {

// RENAME_EXCHANGE of <linux/fs.h>; not every libc has a function that takes it.
constexpr unsigned kRenameExchange = 1u << 1;

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
