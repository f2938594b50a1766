// Implements tensor_buffer.h.
#include "tensor_buffer.h"

#include <atomic>
#include <new>

#ifdef __SANITIZE_ADDRESS__
extern "C" void __lsan_ignore_object(const void* object);
#endif

namespace {

// Owned by a buffer besides its bytes. Owners: the finalizer, and the call that creates the
// buffer. That call lets go when the runtime refuses to make the buffer: Node 20 has run the
// finalizer by then; Bun never does, nor does Node when it ends a worker during the call. Since a
// finalizer may also run later, its reference stays: these few bytes leak.
class Ownership : public Counted {
 public:
  Ownership(Environment* environment, Mapping* mapping, uint64_t length)
      : environment_(environment), mapping_(mapping), length_(length) {
    mapping_->AddBuffer();
  }

  // Calls after the first do nothing. Any thread: atomics, and at most an munmap and a close.
  void LetGo() {
    if (is_over_.exchange(true, std::memory_order_acq_rel)) return;
    environment_->accounting.AfterFree(length_);
    mapping_->RemoveBuffer();
    environment_ = {};
    mapping_ = {};
  }

 private:
  Ref<Environment> environment_;
  MappingRef mapping_;
  const uint64_t length_;
  std::atomic<bool> is_over_{false};
};

// Node runs this on the JavaScript thread, from the event loop or while the environment is torn
// down; Deno on a separate thread. It may not use the environment.
void FinalizeTensorBuffer(napi_env, void*, void* hint) {
  Ref<Ownership>::Adopt(static_cast<Ownership*>(hint))->LetGo();
}

// The counted way: an external buffer of Node-API.
napi_status CreateExternalBuffer(napi_env env, Environment* environment, Mapping* mapping,
                                 uint64_t offset, uint64_t length, napi_value* buffer) {
  const Ref<Ownership> ownership(new (std::nothrow) Ownership(environment, mapping, length));
  if (!ownership) return napi_generic_failure;

  environment->accounting.BeforeCreation(env, length, mapping->length());
  const napi_status status =
      napi_create_external_arraybuffer(env, mapping->base() + offset, length, FinalizeTensorBuffer,
                                       Ref<Ownership>(ownership).Release(), buffer);
  if (status == napi_ok) {
    environment->accounting.AfterCreation(env, length);
  } else {
    ownership->LetGo();
#ifdef __SANITIZE_ADDRESS__
    __lsan_ignore_object(ownership.get());
#endif
  }
  return status;
}

}  // namespace

napi_status CreateTensorBuffer(napi_env env, Environment* environment, Mapping* mapping,
                               uint64_t offset, uint64_t length, napi_value* buffer) {
  mapping->set_exposed();
  *buffer = environment->uncounted_buffers.Create(mapping, offset, length);
  if (*buffer != nullptr) return napi_ok;
  return CreateExternalBuffer(env, environment, mapping, offset, length, buffer);
}
