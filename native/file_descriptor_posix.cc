// Implements file_descriptor.h on POSIX systems.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "file_descriptor.h"

namespace {

// Most bytes of one call, on every system.
constexpr size_t kMaxLength = size_t{1} << 30;

}  // namespace

int FileDescriptor::Duplicate(int fd, FileDescriptor* duplicate) {
  *duplicate = FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return duplicate->get() == -1 ? -errno : 0;
}

int FileDescriptor::Close() {
  const int fd = Release();
  return fd == -1 || close(fd) == 0 ? 0 : -errno;
}

bool DescriptorsWork() {
  return true;
}

int ReadSizeAndTime(int fd, SizeAndTime* result) {
  struct stat file;
  if (fstat(fd, &file) != 0) return -errno;
#ifdef __APPLE__
  const struct timespec& mtime = file.st_mtimespec;
#else
  const struct timespec& mtime = file.st_mtim;
#endif
  *result = {file.st_size, mtime.tv_sec, mtime.tv_nsec};
  return 0;
}

int64_t ReadAt(int fd, void* target, size_t length, uint64_t position) {
  ssize_t count;
  do {
    count = pread(fd, target, std::min(length, kMaxLength), static_cast<off_t>(position));
  } while (count == -1 && errno == EINTR);
  return count == -1 ? -errno : count;
}

int64_t WriteAt(int fd, const void* source, size_t length, uint64_t position) {
  ssize_t count;
  do {
    count = pwrite(fd, source, std::min(length, kMaxLength), static_cast<off_t>(position));
  } while (count == -1 && errno == EINTR);
  return count == -1 ? -errno : count;
}
