// Implements accounting.h.
#include "accounting.h"

#include <algorithm>

namespace {

// The engine reacts to 64 MB since its last full collection. Below this size a reserve is not worth
// the collection that it costs.
constexpr int64_t kUnnoticed = int64_t{32} << 20;

// `process.memoryUsage().external` shows the sum of all reserves. A smaller one would soon be spent
// on small files.
constexpr int64_t kLeastReserve = int64_t{256} << 20;

// Limit of the doubling.
constexpr int64_t kMaxDoubling = int64_t{1} << 40;

// More than half of any heap's limit: when the counter rises by so much, the engine collects at
// once and not step by step.
constexpr int64_t kCollectNow = int64_t{1} << 40;

}  // namespace

// Raises the engine's counter and makes the engine collect before this returns. Afterwards nothing
// of the counter is newer than that collection. That matters at exit: in what the engine takes for
// new external memory, it sees a reason to let its compiler threads wait for a collection, and on
// Node 24 process.exit() then waits for those threads forever.
bool Accounting::Raise(napi_env env, int64_t bytes) {
  int64_t counter;
  if (!enabled_ || napi_adjust_external_memory(env, bytes + kCollectNow, &counter) != napi_ok) {
    return false;
  }
  napi_adjust_external_memory(env, -kCollectNow, &counter);
  return true;
}

void Accounting::BeforeCreation(napi_env env, uint64_t length, uint64_t mapping_length) {
  const auto added = static_cast<int64_t>(length);
  const int64_t live = live_.fetch_add(added, std::memory_order_relaxed) + added;
  if (!enabled_ || reserve_ >= added || live <= kUnnoticed) return;
  const int64_t growth = std::max(
      {static_cast<int64_t>(mapping_length), std::min(told_, kMaxDoubling), kLeastReserve});
  if (!Raise(env, growth)) return;
  reserve_ += growth;
  told_ += growth;
}

void Accounting::AfterCreation(napi_env env, uint64_t length) {
  if (!enabled_ || reserve_ < static_cast<int64_t>(length)) return;
  int64_t counter;
  if (napi_adjust_external_memory(env, -static_cast<int64_t>(length), &counter) == napi_ok) {
    reserve_ -= static_cast<int64_t>(length);
  }
}

void Accounting::End(napi_env env) {
  int64_t counter;
  if (reserve_ > 0) napi_adjust_external_memory(env, -reserve_, &counter);
  reserve_ = 0;
  enabled_ = false;
}
