// Implements mapping.h.
#include "mapping.h"

#include <errno.h>

#include <new>

#include "mapped_range.h"

static_assert(sizeof(size_t) == 8, "mappings are larger than a 32-bit address space");

int Mapping::Open(int fd, uint64_t length, bool guarded, bool (*free_addresses)(),
                  MappingRef* mapping) {
  const MappingRef opened(new (std::nothrow) Mapping());
  if (!opened) return -ENOMEM;
  int error;
  do {
    error = mapped_range::Map(fd, length, &opened->base_);
  } while (error == -ENOMEM && free_addresses());
  if (error != 0) return error;
  opened->length_ = length;
  error = FileDescriptor::Duplicate(fd, &opened->fd_);
  if (error == 0 && guarded) {
    error = guard::Watch(opened->base_, length, opened->fd(), &opened->slot_);
  }
  if (error == 0) *mapping = opened;
  return error;
}

Mapping::~Mapping() {
  Unmap();
}

// Release the guard first: its handler must not touch these addresses once they and the descriptor
// may belong to other code.
void Mapping::Unmap() {
  guard::Leave(slot_);
  slot_ = nullptr;
  if (base_ != nullptr) mapped_range::Unmap(base_, length_, overlaid_);
  base_ = nullptr;
}

// A buffer is removed before it drops its reference: equal sums mean that no other owner is left.
void Mapping::UnmapEmptied() {
  const uint64_t owners = references();
  if (all_emptied_ && owners == 1 + buffers()) Unmap();
}

int Mapping::ReadFileState(FileState* state) const {
  state->truncated = guard::Truncated(slot_);
  return fd() == -1 ? 0 : ReadSizeAndTime(fd(), &state->file);
}

int64_t Mapping::ReadBytes(uint64_t position, void* target, size_t length) const {
  return ReadAt(fd(), target, length, position);
}

void Mapping::CloseFile() {
  guard::ForgetFile(slot_);
  fd_.Close();
}

int Mapping::Overlay(bool all_emptied) {
  const int error = mapped_range::LayZeros(base_, length_);
  if (error != 0) return error;
  overlaid_ = true;
  all_emptied_ = all_emptied;
  return 0;
}
