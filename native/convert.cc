// Implements convert.h.
#include "convert.h"

#include "value_formats.h"

#if defined(__aarch64__)

// Every processor has NEON: there are no other kernels.
Kernel FindKernel(Dtype dtype, Level level) {
  return level == Level::kAvx2 ? nullptr : NeonKernel(dtype);
}

#else

namespace {

template <typename Format>
struct PlainLoop {
  static void Run(const uint8_t* source, float* output, size_t value_count) {
    ConvertLoop<Format>(source, output, value_count);
  }
};

Kernel Avx2KernelIfPresent([[maybe_unused]] Dtype dtype) {
#if defined(__x86_64__) || defined(_M_X64)
  if (HasAvx2()) return Avx2Kernel(dtype);
#endif
  return nullptr;
}

Kernel PlainKernel(Dtype dtype) {
  return SelectKernel<PlainLoop>(dtype);
}

}  // namespace

Kernel FindKernel(Dtype dtype, Level level) {
  if (level == Level::kPlain) return PlainKernel(dtype);
  const Kernel kernel = Avx2KernelIfPresent(dtype);
  return kernel == nullptr && level == Level::kBest ? PlainKernel(dtype) : kernel;
}

#endif

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
