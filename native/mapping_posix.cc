#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "mapping.h"

static_assert(sizeof(size_t) == 8, "mappings are larger than a 32-bit address space");

namespace {

// A write by JavaScript must land in a private copy of the page: without PROT_WRITE it would kill
// the process, with MAP_SHARED it would change the file. Without MAP_NORESERVE the kernel would
// demand swap for a copy of the whole file and refuse large ones.
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE;

}  // namespace

int Mapping::Open(int fd, uint64_t length, bool guarded, Mapping** mapping) {
  void* base = mmap(nullptr, length, kProtection, kFlags, fd, 0);
  if (base == MAP_FAILED) return errno;

  int error = 0;
  guard::Slot* slot = nullptr;
  const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (kept == -1) {
    error = errno;
  } else if (guarded) {
    error = guard::Watch(base, length, kept, &slot);
  }
  if (error == 0) {
    *mapping = new (std::nothrow) Mapping(static_cast<uint8_t*>(base), length, kept, slot);
    if (*mapping != nullptr) return 0;
    error = ENOMEM;
  }

  guard::Leave(slot);
  munmap(base, length);
  if (kept != -1) close(kept);
  return error;
}

void Mapping::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// The guard lets go first: from then on its handler does not touch these addresses any more, and
// they and the descriptor may come to belong to somebody else.
Mapping::~Mapping() {
  guard::Leave(slot_);
  munmap(base_, length_);
  if (fd_ != -1) close(fd_);
}

int Mapping::ReadState(FileState* state) const {
  struct stat file;
  if (fstat(fd_, &file) != 0) return errno;
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
    count = pread(fd_, target, std::min(length, kMaxLength), static_cast<off_t>(position));
  } while (count == -1 && errno == EINTR);
  return count == -1 ? -errno : count;
}

int Mapping::Overlay() {
  if (fd_ == -1) return 0;
  if (mmap(base_, length_, kProtection, kFlags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return errno;
  }
  guard::ForgetFile(slot_);
  close(fd_);
  fd_ = -1;
  return 0;
}
