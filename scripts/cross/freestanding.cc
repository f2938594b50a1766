// Functions of the C++ library, for files that are linked without it.

#include <stdlib.h>

#include <new>

const std::nothrow_t std::nothrow{};

namespace {

void* AllocateOrAbort(size_t size) {
  void* memory = malloc(size > 0 ? size : 1);
  if (memory == nullptr) abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) {
  return AllocateOrAbort(size);
}

void* operator new[](size_t size) {
  return AllocateOrAbort(size);
}

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return malloc(size > 0 ? size : 1);
}

void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return malloc(size > 0 ? size : 1);
}

void operator delete(void* memory) noexcept {
  free(memory);
}

void operator delete[](void* memory) noexcept {
  free(memory);
}

#ifdef __linux__

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// GNU's C library exports it since 2.33 only.
extern "C" int fstat(int fd, struct stat* file) {
  return static_cast<int>(syscall(SYS_fstat, fd, file));
}

#endif

#ifdef _WIN32

#include <stdint.h>
#include <windows.h>

// A function's static variable is made once: the first byte says that it is there, the second that
// some thread is making it.
extern "C" int __cxa_guard_acquire(uint8_t* guard) {
  while (__atomic_test_and_set(guard + 1, __ATOMIC_ACQUIRE)) {
    if (__atomic_load_n(guard, __ATOMIC_ACQUIRE) != 0) return 0;
    SwitchToThread();
  }
  return 1;
}

extern "C" void __cxa_guard_release(uint8_t* guard) {
  __atomic_store_n(guard, 1, __ATOMIC_RELEASE);
}

#endif
