// Keeps objects of JavaScript alive while the thread pool works on their memory.
#ifndef SAFETENSORS_MMAP_KEPT_H_
#define SAFETENSORS_MMAP_KEPT_H_

#include <node_api.h>

// Keeps a JavaScript object from being collected. Made and deleted on the JavaScript thread.
class Kept {
 public:
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    if (reference_ != nullptr) napi_delete_reference(env_, reference_);
  }

  bool Keep(napi_env env, napi_value object) {
    env_ = env;
    return napi_create_reference(env, object, 1, &reference_) == napi_ok;
  }

 private:
  napi_env env_ = nullptr;
  napi_ref reference_ = nullptr;
};

#endif  // SAFETENSORS_MMAP_KEPT_H_
