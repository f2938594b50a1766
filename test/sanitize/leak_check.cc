// checkLeaks(): looks for leaks now. LeakSanitizer does so at exit, and vitest ends its processes
// by a signal.

#include <node_api.h>

extern "C" int __lsan_do_recoverable_leak_check();

namespace {

// Writes its findings to the log.
napi_value CheckLeaks(napi_env, napi_callback_info) {
  __lsan_do_recoverable_leak_check();
  return nullptr;
}

}  // namespace

NAPI_MODULE_INIT() {
  const napi_property_descriptor function = {"checkLeaks", nullptr, CheckLeaks,   nullptr,
                                             nullptr,      nullptr, napi_default, nullptr};
  napi_define_properties(env, exports, 1, &function);
  return exports;
}
