// Open files by descriptor: their owner, size and time, reads and writes. On Windows by functions
// that the runtime exports.
#ifndef SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_
#define SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

// Open files by the numbers that `node:fs` has for them. On Windows these are numbers of the
// runtime's C library, not of ours: the runtime is asked for the handle of each.

// Owns a file descriptor, if any, and closes it.
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

  // A second descriptor of the same file, which programs that this one starts do not get. Returns 0
  // or a negative errno.
  static int Duplicate(int fd, FileDescriptor* duplicate);

  // -1 without a descriptor.
  int get() const { return fd_; }

  // Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }

  // Returns 0, also without a descriptor, or a negative errno.
  int Close();

 private:
  int fd_ = -1;
};

// All that follows may be called on any thread and leaves the descriptor open.

// Whether this runtime lets addons use its descriptors.
bool DescriptorsWork();

// How long a file is, and when it was modified last: `mtime_nanoseconds` after a whole second.
struct SizeAndTime {
  int64_t size;
  int64_t mtime_seconds;
  int64_t mtime_nanoseconds;
};

// Returns 0 or a negative errno.
int ReadSizeAndTime(int fd, SizeAndTime* result);

// Reads up to `length` bytes from a position. Returns how many, 0 at the file's end, or a negative
// errno.
int64_t ReadAt(int fd, void* target, size_t length, uint64_t position);

// Writes up to `length` bytes at a position. Returns how many, or a negative errno.
int64_t WriteAt(int fd, const void* source, size_t length, uint64_t position);

#endif  // SAFETENSORS_MMAP_FILE_DESCRIPTOR_H_
