// Compiled for AVX2 and F16C: see convert_avx2.cc. Without FMA, whose results differ.

#include <immintrin.h>

#include "merge.h"
#include "merge_loops.h"

namespace {

template <int kBits>
inline __m256i Rotate(__m256i words) {
  return _mm256_or_si256(_mm256_slli_epi32(words, kBits), _mm256_srli_epi32(words, 32 - kBits));
}

template <int kBits>
inline void Round(__m256i* a, __m256i* b) {
  *a = _mm256_add_epi32(*a, *b);
  *b = _mm256_xor_si256(Rotate<kBits>(*b), *a);
}

template <int kGroup>
inline void Rounds(const __m256i* keys, __m256i* a, __m256i* b) {
  constexpr const int (&rotations)[4] = kRotations[kGroup % 2];
  Round<rotations[0]>(a, b);
  Round<rotations[1]>(a, b);
  Round<rotations[2]>(a, b);
  Round<rotations[3]>(a, b);
  *a = _mm256_add_epi32(*a, keys[kGroup % 3]);
  *b = _mm256_add_epi32(*b, _mm256_add_epi32(keys[(kGroup + 1) % 3], _mm256_set1_epi32(kGroup)));
}

// Eight blocks of the generator at once: sixteen elements.
void Draw(const Chance& chance, uint64_t position, uint32_t* masks, size_t count) {
  const __m256i keys[3] = {
      _mm256_set1_epi32(static_cast<int>(chance.keys[0])),
      _mm256_set1_epi32(static_cast<int>(chance.keys[1])),
      _mm256_set1_epi32(static_cast<int>(chance.keys[0] ^ chance.keys[1] ^ kThreefryParity))};
  if (chance.limit == 0) {
    memset(masks, 0, count * sizeof *masks);
    return;
  }
  const __m256i largest = _mm256_set1_epi32(static_cast<int>(chance.limit - 1));
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (size_t i = 0; i < count; i += kMergeGroup) {
    // Eight numbers from a multiple of eight on have the same upper word.
    const uint64_t number = (position + i) / 2;
    const __m256i low =
        _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(number))), steps);
    const __m256i high = _mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(number >> 32)));
    __m256i a = _mm256_add_epi32(low, keys[0]);
    __m256i b = _mm256_add_epi32(high, keys[1]);
    Rounds<1>(keys, &a, &b);
    Rounds<2>(keys, &a, &b);
    Rounds<3>(keys, &a, &b);
    Rounds<4>(keys, &a, &b);
    Rounds<5>(keys, &a, &b);
    a = _mm256_cmpeq_epi32(_mm256_max_epu32(a, largest), largest);
    b = _mm256_cmpeq_epi32(_mm256_max_epu32(b, largest), largest);
    const __m256i lower = _mm256_unpacklo_epi32(a, b);
    const __m256i upper = _mm256_unpackhi_epi32(a, b);
    auto* into = reinterpret_cast<__m256i*>(masks + i);
    _mm256_storeu_si256(into, _mm256_permute2x128_si256(lower, upper, 0x20));
    _mm256_storeu_si256(into + 1, _mm256_permute2x128_si256(lower, upper, 0x31));
  }
}

// As Vote.
void VoteFour(const double* deltas, const Ballot& ballot, Votes* votes, size_t count) {
  const __m256d factor = _mm256_set1_pd(ballot.factor);
  const __m256d weight = _mm256_set1_pd(ballot.weight);
  const __m256d zero = _mm256_setzero_pd();
  const __m256i flip = _mm256_set1_epi64x(ballot.factor < 0 ? -1 : 0);
  const auto add = [](double* sums, __m256d values) {
    _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), values));
  };
  for (size_t i = 0; i < count; i += 4) {
    const __m256d delta = _mm256_loadu_pd(deltas + i);
    const __m256d value = _mm256_mul_pd(factor, delta);
    const __m256i is_below = _mm256_cmpgt_epi64(_mm256_setzero_si256(), _mm256_castpd_si256(delta));
    const __m256d is_negative = _mm256_castsi256_pd(_mm256_xor_si256(is_below, flip));
    // A value of 0 has no weight.
    const __m256d own = _mm256_and_pd(weight, _mm256_cmp_pd(delta, zero, _CMP_NEQ_UQ));
    add(votes->totals + i, value);
    add(votes->sums[0] + i, _mm256_andnot_pd(is_negative, value));
    add(votes->sums[1] + i, _mm256_and_pd(is_negative, value));
    add(votes->weights[0] + i, _mm256_andnot_pd(is_negative, own));
    add(votes->weights[1] + i, _mm256_and_pd(is_negative, own));
  }
}

// As Elect, which compilers turn into a loop over single values.
void ElectFour(bool is_normalized, Votes* votes, size_t count) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  const __m256d least = _mm256_set1_pd(kLeastDivisor);
  const __m256d one = _mm256_set1_pd(1.0);
  for (size_t i = 0; i < count; i += 4) {
    const __m256d vote = _mm256_loadu_pd(votes->totals + i);
    // By the sign of the vote.
    const auto elected = [&](const double (&both)[2][kMergeBlock]) {
      return _mm256_blendv_pd(_mm256_loadu_pd(both[0] + i), _mm256_loadu_pd(both[1] + i), vote);
    };
    __m256d result = elected(votes->sums);
    if (is_normalized) {
      const __m256d weight = elected(votes->weights);
      const __m256d is_less = _mm256_cmp_pd(_mm256_andnot_pd(sign, weight), least, _CMP_LT_OQ);
      result = _mm256_div_pd(result, _mm256_blendv_pd(weight, one, is_less));
    }
    const __m256d is_nan = _mm256_cmp_pd(vote, vote, _CMP_UNORD_Q);
    _mm256_storeu_pd(votes->totals + i, _mm256_blendv_pd(result, vote, is_nan));
  }
}

constexpr MergeLoops kLoops = {Widen,      Subtract,  Magnitudes, Largest,  Draw,  Select,
                               CountEqual, Sum,       Dot,        Dots,     Scale, AddScaled,
                               AddDelta,   AddToBase, VoteFour,   ElectFour};

}  // namespace

const MergeLoops* Avx2MergeLoops() {
  return &kLoops;
}
