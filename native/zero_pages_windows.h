// Zeros without memory, which Windows lacks: by a handler of faults.
#ifndef SAFETENSORS_MMAP_ZERO_PAGES_WINDOWS_H_
#define SAFETENSORS_MMAP_ZERO_PAGES_WINDOWS_H_

#include <cstdint>

// Ranges of zeros that take no memory until somebody reads or writes there. Windows lets a program
// reserve addresses without memory, but touching them is an error: a handler of such errors gives
// the page its memory, and the reader goes on. Calls of the system do not come to that handler:
// given pages that nobody has touched, they fail. Any thread.
namespace zero_pages {

// Takes the file out of a mapped view of `length` bytes, and has zeros there instead. Returns 0, or
// a negative errno after which nothing has changed. A reader on another thread waits meanwhile.
// Between two calls of the system the addresses are free: should somebody else take them just then,
// they are theirs, and `Free` does nothing. Placeholders (`VirtualAlloc2`, `MapViewOfFile3`,
// `UnmapViewOfFile2`) would close that gap, and every mapping would have to be made with them. wine
// 8, which runs the tests, has the functions but refuses placeholders (ERROR_INVALID_PARAMETER), so
// nobody has seen such code run: it waits for a Windows.
int Replace(uint8_t* view, uint64_t length);

void Free(uint8_t* view);

}  // namespace zero_pages

#endif  // SAFETENSORS_MMAP_ZERO_PAGES_WINDOWS_H_
