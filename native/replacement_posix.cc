// Implements replacement.h on POSIX systems.
#include <errno.h>
#include <sys/file.h>

#include "replacement.h"

int Lock(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

// Not done yet for this system: callers then rename.
int Exchange(const char*, const char*) {
  return -ENOTSUP;
}

// Not done yet either.
int CopyAccessList(const char*, int) {
  return -ENOTSUP;
}
