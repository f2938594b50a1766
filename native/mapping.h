// One mapped file.
#ifndef SAFETENSORS_MMAP_MAPPING_H_
#define SAFETENSORS_MMAP_MAPPING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "counted.h"
#include "file_descriptor.h"
#include "guard.h"

// The file's facts by the kept descriptor, and the guard's finding. After `CloseFile` there
// is only the latter.
struct FileState {
  SizeAndTime file;
  bool truncated;
};

class Mapping;
using MappingRef = Ref<Mapping>;

// One file mapped copy-on-write as a whole.
//
// Owners: the handle until it has ended, every live external buffer over the range, work on the
// thread pool, and the quarantine. Dropping the last reference unmaps the range, on whatever thread
// that happens: Deno finalizes buffers off the JavaScript thread. All other members are called on
// the JavaScript thread of the environment that opened the mapping, unless they say otherwise; work
// on the pool also asks for `base` and `guarded`.
//
// At exit nothing has to run: the kernel takes mappings and descriptors back with the process.
class Mapping : public Counted {
 public:
  // Maps `length` > 0 bytes of `fd`. Returns 0 or a negative errno. `fd` stays the caller's; the
  // mapping keeps a separate duplicate. When a worker ends, Node closes every number that the
  // worker opened with `node:fs` and did not close there, even if another file has it by then.
  // Once addresses run out, calls `free_addresses` until it returns false.
  static int Open(int fd, uint64_t length, bool guarded, bool (*free_addresses)(),
                  MappingRef* mapping);

  uint8_t* base() const { return base_; }
  uint64_t length() const { return length_; }
  // Stays the mapping's; -1 after `CloseFile`.
  int fd() const { return fd_.get(); }

  // Whether a page that is gone reads as zeros instead of raising SIGBUS.
  bool guarded() const { return slot_ != nullptr; }

  // Whether a pointer into the range was ever exposed: code may still read there.
  bool exposed() const { return exposed_; }
  void set_exposed() { exposed_ = true; }

  // Whether the system was told that pages are touched in any order, and reads none around them.
  // Set before any work on the pool.
  bool random() const { return random_; }
  void set_random() { random_ = true; }

  // How many external buffers over the range have not been finalized. Any thread.
  uint64_t buffers() const { return buffers_.load(std::memory_order_acquire); }
  void AddBuffer() { buffers_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveBuffer() { buffers_.fetch_sub(1, std::memory_order_release); }

  // Returns 0 or a negative errno.
  int ReadFileState(FileState* state) const;

  // Reads up to `length` bytes of the file into ordinary memory. Returns how many, 0 at the file's
  // end, or a negative errno.
  int64_t ReadBytes(uint64_t position, void* target, size_t length) const;

  // Closes the descriptor. Reading the file's bytes is an error afterwards.
  void CloseFile();

  // Lays zero pages over the file's pages, at the same addresses: file and memory are free at once,
  // and whoever still reads there sees zeros. `all_emptied` says that the engine has let go of all
  // buffers over the range. Returns 0 or a negative errno.
  int Overlay(bool all_emptied);

  // The quarantine, which must have a reference, lets the range go: unmaps it at once when the only
  // other owners are emptied buffers that wait for their finalizers. Any thread.
  void UnmapEmptied();

 private:
  friend MappingRef;
  Mapping() = default;
  ~Mapping();
  void Unmap();

  uint8_t* base_ = nullptr;
  uint64_t length_ = 0;
  bool overlaid_ = false;
  FileDescriptor fd_;
  guard::Slot* slot_ = nullptr;
  bool exposed_ = false;
  bool random_ = false;
  bool all_emptied_ = false;
  std::atomic<uint64_t> buffers_{0};
};

#endif  // SAFETENSORS_MMAP_MAPPING_H_
