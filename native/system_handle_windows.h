// Handles of Windows: their owner, those of descriptors; errors of Windows.
#ifndef SAFETENSORS_MMAP_SYSTEM_HANDLE_WINDOWS_H_
#define SAFETENSORS_MMAP_SYSTEM_HANDLE_WINDOWS_H_

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

#include <memory>
#include <type_traits>

struct HandleCloser {
  void operator()(HANDLE handle) const { CloseHandle(handle); }
};

// Owns a handle of Windows, if any.
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<HANDLE>, HandleCloser>;

// The handle of a descriptor of the runtime, which stays its owner; `INVALID_HANDLE_VALUE` for
// a number that is not one, or where the runtime does not tell.
HANDLE HandleOf(int fd);

// The negative errno for an error of Windows: that of our headers, which `node:os` knows by name.
int ErrnoOf(DWORD error);
inline int LastErrno() {
  return ErrnoOf(GetLastError());
}

#endif  // SAFETENSORS_MMAP_SYSTEM_HANDLE_WINDOWS_H_
