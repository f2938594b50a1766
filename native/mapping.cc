#include "mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "quarantine.h"

static_assert(sizeof(size_t) == 8, "mappings are larger than a 32-bit address space");

namespace {

// A write by JavaScript must land in a private copy of the page: without PROT_WRITE it would kill
// the process, with MAP_SHARED it would change the file. Without MAP_NORESERVE the kernel would
// demand swap for a copy of the whole file and refuse large ones.
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE;

}  // namespace

int Mapping::Open(int fd, uint64_t length, bool guarded, MappingRef* mapping) {
  const MappingRef opened(new (std::nothrow) Mapping());
  if (!opened) return -ENOMEM;
  void* base;
  int error;
  do {
    base = mmap(nullptr, length, kProtection, kFlags, fd, 0);
    error = base == MAP_FAILED ? -errno : 0;
  } while (error == -ENOMEM && DropOldestOfQuarantine());
  if (error != 0) return error;
  opened->base_ = static_cast<uint8_t*>(base);
  opened->length_ = length;
  opened->fd_ = FileDescriptor::Duplicate(fd);
  if (!opened->fd_) return -errno;
  if (guarded) error = guard::Watch(base, length, opened->fd(), &opened->slot_);
  if (error == 0) *mapping = opened;
  return error;
}

Mapping::~Mapping() {
  Unmap();
}

// The guard lets go first: from then on its handler does not touch these addresses any more, and
// they and the descriptor may come to belong to somebody else.
void Mapping::Unmap() {
  guard::Leave(slot_);
  slot_ = nullptr;
  if (base_ != nullptr) munmap(base_, length_);
  base_ = nullptr;
}

// A buffer is removed before it drops its reference: when the sums agree, there was nobody else.
void Mapping::UnmapEmptied() {
  const uint64_t owners = references();
  if (all_emptied_ && owners == 1 + buffers()) Unmap();
}

int Mapping::ReadFileState(FileState* state) const {
  struct stat file;
  if (fstat(fd(), &file) != 0) return -errno;
#ifdef __APPLE__
  const struct timespec& mtime = file.st_mtimespec;
#else
  const struct timespec& mtime = file.st_mtim;
#endif
  *state = {file.st_size, mtime.tv_sec, mtime.tv_nsec, guard::Truncated(slot_)};
  return 0;
}

int64_t Mapping::ReadBytes(uint64_t position, void* target, size_t length) const {
  // What one call takes at most, on every system.
  constexpr size_t kMaxLength = size_t{1} << 30;
  ssize_t count;
  do {
    count = pread(fd(), target, std::min(length, kMaxLength), static_cast<off_t>(position));
  } while (count == -1 && errno == EINTR);
  return count == -1 ? -errno : count;
}

void Mapping::CloseFile() {
  guard::ForgetFile(slot_);
  fd_.Close();
}

int Mapping::Overlay(bool all_emptied) {
  if (mmap(base_, length_, kProtection, kFlags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return -errno;
  }
  all_emptied_ = all_emptied;
  return 0;
}
