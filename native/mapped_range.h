// Maps a file copy-on-write, lays zeros over it, unmaps it.
#ifndef SAFETENSORS_MMAP_MAPPED_RANGE_H_
#define SAFETENSORS_MMAP_MAPPED_RANGE_H_

#include <cstdint>

// System calls of mappings. Ranges are whole mappings. Any thread.
namespace mapped_range {

// Maps `length` > 0 bytes of the file from its start, for reading and for writing into private
// copies of pages. `fd` may be closed afterwards. Returns 0 or a negative errno: ENODEV where the
// file system has no mappings, and, where such a file cannot be mapped, ENODATA for a shorter one.
int Map(int fd, uint64_t length, uint8_t** base);

// Takes the file out of the range and lays zero pages there, which take memory only when they are
// touched. Returns 0, or a negative errno after which nothing has changed.
int LayZeros(uint8_t* base, uint64_t length);

// Frees the addresses. `has_zeros` says that zero pages lie there.
void Unmap(uint8_t* base, uint64_t length, bool has_zeros);

}  // namespace mapped_range

#endif  // SAFETENSORS_MMAP_MAPPED_RANGE_H_
