#include "convert.h"

#include "value_formats.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

template <typename Format>
struct PlainLoop {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    ConvertLoop<Format>(source, output, value_count);
  }
};

#if defined(__x86_64__)
// Whether the processor has AVX2 and F16C, and the system saves the wide registers. The compiler's
// own test brings a constructor, whose questions take 0.05 ms of loading the addon in a virtual
// machine, where the host answers each of them.
bool HasAvx2() {
  constexpr unsigned kExtensions = bit_OSXSAVE | bit_AVX | bit_F16C;
  constexpr unsigned kWideRegisters = 0x6;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((ecx & kExtensions) != kExtensions) return false;
  __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  if ((eax & kWideRegisters) != kWideRegisters) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_AVX2) != 0;
}

Kernel Avx2KernelIfPresent(Dtype dtype) {
  static const bool present = HasAvx2();
  return present ? Avx2Kernel(dtype) : nullptr;
}
#else
Kernel Avx2KernelIfPresent(Dtype) {
  return nullptr;
}
#endif

Kernel PlainKernel(Dtype dtype) {
  return SelectKernel<PlainLoop>(dtype);
}

}  // namespace

Kernel FindKernel(Dtype dtype, Level level) {
  if (level == Level::kPlain) return PlainKernel(dtype);
  const Kernel kernel = Avx2KernelIfPresent(dtype);
  return kernel == nullptr && level == Level::kBest ? PlainKernel(dtype) : kernel;
}

uint32_t BitsPerValue(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF4:
      return 4;
    case Dtype::kF6E2M3:
    case Dtype::kF6E3M2:
      return 6;
    case Dtype::kBool:
    case Dtype::kU8:
    case Dtype::kI8:
    case Dtype::kF8E5M2:
    case Dtype::kF8E4M3:
    case Dtype::kF8E8M0:
    case Dtype::kF8E4M3Fnuz:
    case Dtype::kF8E5M2Fnuz:
      return 8;
    case Dtype::kI16:
    case Dtype::kU16:
    case Dtype::kF16:
    case Dtype::kBf16:
      return 16;
    case Dtype::kI32:
    case Dtype::kU32:
    case Dtype::kF32:
    case Dtype::kC64:
      return 32;
    case Dtype::kF64:
    case Dtype::kI64:
    case Dtype::kU64:
      return 64;
  }
  return 0;
}
