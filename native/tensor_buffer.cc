#include "tensor_buffer.h"

#include <algorithm>
#include <new>

namespace {

// Below what the engine reacts to (64 MB since its last full collection): not worth a reserve, the
// telling of which costs a collection.
constexpr int64_t kUnnoticed = int64_t{32} << 20;

// Where doubling ends, so that the sum that `process.memoryUsage().external` shows stays sane.
constexpr int64_t kMaxDoubling = int64_t{1} << 40;

}  // namespace

void Accounting::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

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

// What a buffer owns besides its bytes. Shared by the finalizer and the call that creates the
// buffer, because runtimes differ when they refuse one: Node 20 has run the finalizer by then,
// Bun never does.
class Ownership {
 public:
  Ownership(Accounting* accounting, Mapping* mapping, uint64_t length)
      : accounting_(accounting), mapping_(mapping), length_(length) {
    accounting_->Ref();
    mapping_->Ref();
  }

  // Idempotent, any thread: atomics, and at most an munmap and a close.
  void Release() {
    if (released_.exchange(true, std::memory_order_acq_rel)) return;
    accounting_->AfterFree(length_);
    accounting_->Unref();
    mapping_->Unref();
  }

  void Drop() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  Accounting* const accounting_;
  Mapping* const mapping_;
  const uint64_t length_;
  std::atomic<bool> released_{false};
  std::atomic<int> holders_{2};
};

// Node runs this on the JavaScript thread, from the event loop or while the environment is torn
// down; Deno on a thread of its own. It may not use the environment.
void FinalizeTensorBuffer(napi_env, void*, void* hint) {
  auto* ownership = static_cast<Ownership*>(hint);
  ownership->Release();
  ownership->Drop();
}

}  // namespace

napi_status CreateTensorBuffer(napi_env env, Accounting* accounting, Mapping* mapping,
                               uint64_t offset, uint64_t length, napi_value* buffer) {
  auto* ownership = new (std::nothrow) Ownership(accounting, mapping, length);
  if (ownership == nullptr) return napi_generic_failure;

  accounting->BeforeCreation(env, length, mapping->length());
  mapping->set_exposed();
  const napi_status status = napi_create_external_arraybuffer(
      env, mapping->base() + offset, length, FinalizeTensorBuffer, ownership, buffer);
  if (status == napi_ok) {
    accounting->AfterCreation(env, length);
  } else {
    ownership->Release();
  }
  ownership->Drop();
  return status;
}
