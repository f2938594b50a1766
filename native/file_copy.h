// Disk space for a file, and copies between files within the kernel.
#ifndef SAFETENSORS_MMAP_FILE_COPY_H_
#define SAFETENSORS_MMAP_FILE_COPY_H_

#include <cstddef>
#include <cstdint>

// Copies between files. All functions may be called on any thread and leave the descriptors open.

// Gives the file disk space for its first `length` > 0 bytes, unwritten, and makes it at least that
// long. Returns 0 or a negative errno: ENOTSUP where the system or the file system cannot.
// Never writes zeros instead, which would double the work.
int Allocate(int fd, uint64_t length);

// Copies bytes from one file to another within the kernel, which may share or move them on the
// device. Returns how many, fewer than `length` where the source ends or an error came after some
// of them, or a negative errno: ENOTSUP where the system cannot, EXDEV and others where the kernel
// does not for these two files.
int64_t CopyFileRange(int source, uint64_t source_position, int target, uint64_t target_position,
                      uint64_t length);

// Bytes of a file.
struct SourceRange {
  int fd;
  uint64_t position;
  uint64_t length;
};

// Copies `count` ranges, one after the other, through a buffer. Meant for short ranges: a call of
// `CopyFileRange` for each would take longer. Returns how many bytes were written, fewer where a
// source ends or an error came after some of them, or a negative errno.
int64_t GatherRanges(const SourceRange* ranges, size_t count, int target, uint64_t target_position);

#endif  // SAFETENSORS_MMAP_FILE_COPY_H_
