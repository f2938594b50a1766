// Truncation guard: the SIGBUS handler and the registry of ranges.
#ifndef SAFETENSORS_MMAP_GUARD_H_
#define SAFETENSORS_MMAP_GUARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

// The truncation guard. A page of a mapping whose file has become shorter raises SIGBUS when it is
// touched, by whatever thread: JavaScript, zlib on libuv's pool, a worker. The guard turns that
// into zeros and a mark on the mapping.
//
// Its registry and the signal handler are shared by all environments and threads of the process
// and are never torn down.
namespace guard {

// A mapping's entry in the registry. Null where there is no guard and for an unguarded mapping; all
// functions take null.
struct Slot;

// Starts to watch the pages of [base, base + length), mapped from `fd`, which the handler only asks
// for the file's size. The first call of the process installs the handler; a SIGBUS handler that
// somebody installs later replaces the guard. Returns 0 or a negative errno.
int Watch(void* base, size_t length, int fd, Slot** result);

// Whether a reader has hit the file's new end.
bool Truncated(const Slot* slot);

// How many mappings of the process were found cut short; it wraps around. The handler counts, on
// whatever thread, and JavaScript reads it where it stands: a call would cost more than the look.
extern std::atomic<uint32_t> truncations;

// Call it before the descriptor is closed. From then on the handler cannot ask for the file's size:
// it takes all pages from the one that is gone to the end for gone, unless the last one can be
// read.
void ForgetFile(Slot* slot);

// Call it before the range is unmapped. On return no thread's handler works on the range.
void Leave(Slot* slot);

}  // namespace guard

#endif  // SAFETENSORS_MMAP_GUARD_H_
