// Adds functions to the addon's exports.
#ifndef SAFETENSORS_MMAP_EXPORTS_H_
#define SAFETENSORS_MMAP_EXPORTS_H_

#include <napi.h>

#include <cstddef>

template <napi_value (*Function)(const Napi::CallbackInfo&)>
napi_value Invoke(napi_env env, napi_callback_info info) {
  return Function(Napi::CallbackInfo(env, info));
}

// A function as JavaScript sees it.
template <napi_value (*Function)(const Napi::CallbackInfo&)>
napi_property_descriptor Export(const char* name) {
  return {name, nullptr, Invoke<Function>, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}

// Adds functions to `exports`. A worker can be terminated while it loads the addon; then this adds
// some of them or none, and nobody asks for them. The wrapper's classes would end the process.
template <size_t count>
void Define(napi_env env, napi_value exports, const napi_property_descriptor (&functions)[count]) {
  napi_define_properties(env, exports, count, functions);
}

#endif  // SAFETENSORS_MMAP_EXPORTS_H_
