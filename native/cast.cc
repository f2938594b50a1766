// Implements cast.h.
#include "cast.h"

#include "cast_formats.h"

CastKernel FindCast(Dtype from, Dtype to, Level level) {
#if defined(__x86_64__) || defined(_M_X64)
  if (level != Level::kPlain && HasAvx2()) return Avx2Cast(from, to);
#endif
#if defined(__aarch64__)
  if (level == Level::kBest) return NeonCast(from, to);
#endif
  return level == Level::kAvx2 ? nullptr : Casts<PlainDecode, PlainEncode>::Select(from, to);
}
