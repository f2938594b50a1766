#ifndef SAFETENSORS_MMAP_MAPPING_H_
#define SAFETENSORS_MMAP_MAPPING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard.h"

// What the kept descriptor says about the file now, and what the guard saw.
struct FileState {
  int64_t size;
  int64_t mtime_seconds;
  int64_t mtime_nanoseconds;
  bool truncated;
};

// One file mapped copy-on-write as a whole, counted by reference.
//
// Owners: the handle (JavaScript's `Mapping`, until it is released or collected), every live
// external buffer over the range, and the quarantine. Whoever drops the last reference unmaps and
// closes, on whatever thread that is: Deno finalizes buffers off the JavaScript thread. All other
// members are called on the JavaScript thread of the environment that opened the mapping.
//
// At exit nothing has to run: the kernel takes mappings and descriptors back with the process.
class Mapping {
 public:
  // Maps `length` > 0 bytes of `fd`. Returns 0 and a mapping with one reference, or an errno. The
  // mapping keeps a duplicate of `fd`, which stays the caller's: Node remembers the descriptors
  // that a worker has opened, and closes the numbers it believes open when the worker ends, whoever
  // has them by then.
  static int Open(int fd, uint64_t length, bool guarded, Mapping** mapping);

  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();

  uint8_t* base() const { return base_; }
  uint64_t length() const { return length_; }
  // Owned by the mapping; -1 after `Overlay`.
  int fd() const { return fd_; }

  // Whether a page that is gone reads as zeros instead of raising SIGBUS.
  bool guarded() const { return slot_ != nullptr; }

  // Whether a pointer into the range was ever handed out, so that somebody may still read there.
  bool exposed() const { return exposed_; }
  void set_exposed() { exposed_ = true; }

  // Returns 0 or an errno.
  int ReadState(FileState* state) const;

  // Reads up to `length` bytes of the file into ordinary memory. Returns how many, 0 at the file's
  // end, or a negative errno.
  int64_t ReadBytes(uint64_t position, void* target, size_t length) const;

  // Replaces the file's pages by zero pages that belong to nobody, at the same addresses, and
  // closes the descriptor: file and memory are free at once, readers that are left see zeros.
  // Returns 0, or an errno with nothing changed.
  int Overlay();

 private:
  Mapping(uint8_t* base, uint64_t length, int fd, guard::Slot* slot)
      : base_(base), length_(length), fd_(fd), slot_(slot) {}
  ~Mapping();

  uint8_t* const base_;
  const uint64_t length_;
  int fd_;
  guard::Slot* const slot_;
  bool exposed_ = false;
  std::atomic<uint64_t> references_{1};
};

#endif  // SAFETENSORS_MMAP_MAPPING_H_
