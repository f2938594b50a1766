// Which instructions the processor has.
#ifndef SAFETENSORS_MMAP_PROCESSOR_H_
#define SAFETENSORS_MMAP_PROCESSOR_H_

#include <stdint.h>

// Which instructions kernels may use. JavaScript passes the number; only tests choose.
enum class Level : uint32_t { kBest, kPlain, kAvx2 };
constexpr uint32_t kLevelCount = 3;

// Whether the processor has AVX2 and F16C, and the system saves the wide registers. Asks once.
bool HasAvx2();

#endif  // SAFETENSORS_MMAP_PROCESSOR_H_
