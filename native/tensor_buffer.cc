#include "tensor_buffer.h"

#include <algorithm>
#include <new>

namespace {

// The engine reacts to 64 MB since its last full collection. Below this size a reserve is not worth
// the collection that it costs.
constexpr int64_t kUnnoticed = int64_t{32} << 20;

// Where doubling ends: `process.memoryUsage().external` shows the sum of all reserves.
constexpr int64_t kMaxDoubling = int64_t{1} << 40;

}  // namespace

void Accounting::BeforeCreation(napi_env env, uint64_t length, uint64_t mapping_length) {
  const auto added = static_cast<int64_t>(length);
  const int64_t live = live_.fetch_add(added, std::memory_order_relaxed) + added;
  if (!enabled_ || reserve_ >= added || live <= kUnnoticed) return;
  const int64_t growth =
      std::max(static_cast<int64_t>(mapping_length), std::min(told_, kMaxDoubling));
  int64_t counter;
  if (napi_adjust_external_memory(env, growth, &counter) != napi_ok) return;
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

namespace {

// What a buffer owns besides its bytes. Owners: the finalizer, and the call that creates the
// buffer. That call lets go when the runtime refuses to make the buffer: Node 20 has run the
// finalizer by then, Bun never does.
class Ownership : public Counted {
 public:
  Ownership(Accounting* accounting, Mapping* mapping, uint64_t length)
      : accounting_(accounting), mapping_(mapping), length_(length) {}

  // Calls after the first do nothing. Any thread: atomics, and at most an munmap and a close.
  void LetGo() {
    if (is_over_.exchange(true, std::memory_order_acq_rel)) return;
    accounting_->AfterFree(length_);
    accounting_ = {};
    mapping_ = {};
  }

 private:
  Ref<Accounting> accounting_;
  MappingRef mapping_;
  const uint64_t length_;
  std::atomic<bool> is_over_{false};
};

// Node runs this on the JavaScript thread, from the event loop or while the environment is torn
// down; Deno on a thread of its own. It may not use the environment.
void FinalizeTensorBuffer(napi_env, void*, void* hint) {
  Ref<Ownership>::Adopt(static_cast<Ownership*>(hint))->LetGo();
}

}  // namespace

napi_status CreateTensorBuffer(napi_env env, Accounting* accounting, Mapping* mapping,
                               uint64_t offset, uint64_t length, napi_value* buffer) {
  const Ref<Ownership> ownership(new (std::nothrow) Ownership(accounting, mapping, length));
  if (!ownership) return napi_generic_failure;

  accounting->BeforeCreation(env, length, mapping->length());
  mapping->set_exposed();
  const napi_status status =
      napi_create_external_arraybuffer(env, mapping->base() + offset, length, FinalizeTensorBuffer,
                                       Ref<Ownership>(ownership).Release(), buffer);
  if (status == napi_ok) {
    accounting->AfterCreation(env, length);
  } else {
    ownership->LetGo();
  }
  return status;
}
