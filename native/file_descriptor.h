#ifndef SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_
#define SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

// Owns a file descriptor, or none, and closes it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { Close(); }

  // A second descriptor of the same file, closed when the process executes a program. None, and
  // `errno` says why, when there can be none.
  static FileDescriptor Duplicate(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

  // -1 for none.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ != -1; }

  // Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }

  // Returns 0, also for none, or a negative errno.
  int Close() {
    const int fd = Release();
    return fd == -1 || close(fd) == 0 ? 0 : -errno;
  }

 private:
  int fd_ = -1;
};

#endif  // SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_
