// Stores past the caches.
#ifndef SAFETENSORS_MMAP_STREAMING_H_
#define SAFETENSORS_MMAP_STREAMING_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#define SAFETENSORS_MMAP_STREAMS 1
#endif

// In an unnamed namespace and without library code for the reasons that value_formats.h gives.
namespace {

// Values that are stored at once.
constexpr size_t kStreamLanes = 16;

// Copies `kStreamLanes` values. Past the caches, a line of the output is not read from memory
// before it is written. Other processors than x64 decide that for themselves.
inline void StoreLanes(const float* values, float* output, [[maybe_unused]] bool streams) {
#if defined(SAFETENSORS_MMAP_STREAMS)
  if (streams && reinterpret_cast<uintptr_t>(output) % sizeof(__m128) == 0) {
    for (size_t i = 0; i < kStreamLanes; i += 4) {
      _mm_stream_ps(output + i, _mm_loadu_ps(values + i));
    }
    return;
  }
#endif
  memcpy(output, values, kStreamLanes * sizeof(float));
}

// Orders the stores before any later one, for other threads.
inline void FinishStores([[maybe_unused]] bool streams) {
#if defined(SAFETENSORS_MMAP_STREAMS)
  if (streams) _mm_sfence();
#endif
}

}  // namespace

#endif  // SAFETENSORS_MMAP_STREAMING_H_
