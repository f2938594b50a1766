// Implements processor.h.
#include "processor.h"

#if defined(__x86_64__) || defined(_M_X64)
#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif

#include <atomic>

namespace {

// The processor's answer; zeros for an unknown question.
struct Answers {
  unsigned eax, ebx, ecx, edx;
};

#ifdef _MSC_VER
Answers Ask(unsigned question) {
  int numbers[4];
  __cpuid(numbers, 0);
  if (static_cast<unsigned>(numbers[0]) < question) return {};
  __cpuidex(numbers, static_cast<int>(question), 0);
  const auto at = [&numbers](int i) { return static_cast<unsigned>(numbers[i]); };
  return {at(0), at(1), at(2), at(3)};
}

unsigned SavedRegisters() {
  return static_cast<unsigned>(_xgetbv(0));
}
#else
Answers Ask(unsigned question) {
  Answers answers = {};
  __get_cpuid_count(question, 0, &answers.eax, &answers.ebx, &answers.ecx, &answers.edx);
  return answers;
}

unsigned SavedRegisters() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}
#endif

// The compiler's own test brings a constructor, whose questions take 0.05 ms of loading the addon
// in a virtual machine, where the host answers each of them.
bool QueryAvx2() {
  // OSXSAVE, AVX and F16C.
  constexpr unsigned kExtensions = 1u << 27 | 1u << 28 | 1u << 29;
  constexpr unsigned kWideRegisters = 0x6;
  constexpr unsigned kAvx2 = 1u << 5;
  if ((Ask(1).ecx & kExtensions) != kExtensions) return false;
  if ((SavedRegisters() & kWideRegisters) != kWideRegisters) return false;
  return (Ask(7).ebx & kAvx2) != 0;
}

}  // namespace

bool HasAvx2() {
  enum Answer : uint8_t { kNotQueried, kPresent, kAbsent };
  static std::atomic<Answer> known{kNotQueried};
  Answer answer = known.load(std::memory_order_relaxed);
  if (answer == kNotQueried) {
    answer = QueryAvx2() ? kPresent : kAbsent;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kPresent;
}
#else
bool HasAvx2() {
  return false;
}
#endif
