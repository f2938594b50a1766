// Implements cast.h.
#include "cast.h"

#if defined(__aarch64__)

// Every processor has NEON: there are no other casts.
CastKernel FindCast(Dtype from, Dtype to, Level level) {
  return level == Level::kAvx2 ? nullptr : NeonCast(from, to);
}

#else

#include "cast_formats.h"

CastKernel FindCast(Dtype from, Dtype to, Level level) {
#if defined(__x86_64__) || defined(_M_X64)
  if (level != Level::kPlain && HasAvx2()) return Avx2Cast(from, to);
#endif
  return level == Level::kAvx2 ? nullptr : Casts<PlainDecode, PlainEncode>::Select(from, to);
}

#endif
