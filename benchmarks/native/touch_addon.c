/* Lets Node call touch_words: touchWords(bytes: Uint8Array) -> bigint. */
#define NAPI_VERSION 8
#include <node_api.h>

#include "touch.h"

static napi_value TouchWords(napi_env env, napi_callback_info info) {
  size_t argc = 1;
  napi_value argument;
  napi_value result;
  napi_typedarray_type type;
  size_t length;
  void* data;
  if (napi_get_cb_info(env, info, &argc, &argument, NULL, NULL) != napi_ok || argc < 1 ||
      napi_get_typedarray_info(env, argument, &type, &length, &data, NULL, NULL) != napi_ok ||
      type != napi_uint8_array) {
    napi_throw_type_error(env, NULL, "touchWords needs a Uint8Array");
    return NULL;
  }
  uint64_t sum = length == 0 ? 0 : touch_words(data, length);
  return napi_create_bigint_uint64(env, sum, &result) == napi_ok ? result : NULL;
}

NAPI_MODULE_INIT() {
  napi_value function;
  if (napi_create_function(env, "touchWords", NAPI_AUTO_LENGTH, TouchWords, NULL, &function) !=
          napi_ok ||
      napi_set_named_property(env, exports, "touchWords", function) != napi_ok) {
    return NULL;
  }
  return exports;
}
