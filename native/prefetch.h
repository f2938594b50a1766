// Brings pages into memory, counts those that are there, asks for huge ones.
#ifndef SAFETENSORS_MMAP_PREFETCH_H_
#define SAFETENSORS_MMAP_PREFETCH_H_

#include <cstdint>

// Brings the pages of [begin, end) of a mapped file into memory and into the page table, as reading
// them would, and returns when they are there. Nothing is copied: written pages stay as they are,
// the others stay the file's. Any thread; the caller keeps the range mapped. Where the kernel has
// a call for it and no guard watches the range, it does not read there itself: that could raise
// SIGBUS.
//
// Returns 0 or a negative errno; EIO when a page cannot be read: it lies after the end of a file
// that was cut short, or the device failed.
int Populate(const uint8_t* begin, const uint8_t* end, bool guarded);

// Tells the system that [begin, end) of a mapped file will be needed. It begins to read exactly
// that, where touching a page reads much more around it. Does not wait; does nothing when it fails.
// Any thread; the caller keeps the range mapped.
void Announce(const uint8_t* begin, const uint8_t* end);

// Tells the system that the pages of [begin, end), a whole mapping, will be touched in any order:
// from then on it reads none around them. Does nothing when it fails. Any thread.
void AdviseRandom(const uint8_t* begin, const uint8_t* end);

// Returns how many bytes of [begin, end) can be read without waiting for the device, because their
// page is in the page cache or is a private copy; or a negative errno, ENOTSUP when the kernel does
// not tell. `fd` is the mapped file.
int64_t ResidentBytes(int fd, const uint8_t* begin, const uint8_t* end);

// Asks for huge pages in [begin, end), which is memory that nothing was written to yet: a read past
// the page cache looks up every page of its target, so that small ones make it no faster than a
// copy from there. Returns how many bytes lie before the first huge page, or a negative errno:
// ENOTSUP when there is none. Any thread.
int64_t UseHugePages(uint8_t* begin, uint8_t* end);

#endif  // SAFETENSORS_MMAP_PREFETCH_H_
