// The system's mutex, without code of the C++ library.
#ifndef SAFETENSORS_MMAP_MUTEX_H_
#define SAFETENSORS_MMAP_MUTEX_H_

#include <mutex>

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <pthread.h>
#endif

// The system's own mutex. `std::mutex` would be the only thing here that takes code from the C++
// library: the files that the package ships have none of it, so that they fit every runtime.
class Mutex {
 public:
#ifdef _WIN32
  void lock() { AcquireSRWLockExclusive(&mutex_); }
  void unlock() { ReleaseSRWLockExclusive(&mutex_); }

 private:
  SRWLOCK mutex_ = SRWLOCK_INIT;
#else
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
#endif
};

using MutexLock = std::lock_guard<Mutex>;

#endif  // SAFETENSORS_MMAP_MUTEX_H_
