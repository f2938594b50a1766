// Where the addon finds Node-API: in the program that loads it, whatever that program is called.
// node-gyp's import library and hook do this for Visual C++; this file does it for compilers
// without them. The headers declare the functions as imported, so that every call goes through a
// pointer `__imp_<name>`; here are the pointers. The linker reports a missing function.

#include <node_api.h>

#include "system_handle_windows.h"

#define SAFETENSORS_MMAP_NODE_API(FUNCTION)   \
  FUNCTION(napi_add_env_cleanup_hook)         \
  FUNCTION(napi_adjust_external_memory)       \
  FUNCTION(napi_async_destroy)                \
  FUNCTION(napi_call_function)                \
  FUNCTION(napi_check_object_type_tag)        \
  FUNCTION(napi_close_callback_scope)         \
  FUNCTION(napi_close_escapable_handle_scope) \
  FUNCTION(napi_close_handle_scope)           \
  FUNCTION(napi_create_async_work)            \
  FUNCTION(napi_create_error)                 \
  FUNCTION(napi_create_external_arraybuffer)  \
  FUNCTION(napi_create_int64)                 \
  FUNCTION(napi_create_object)                \
  FUNCTION(napi_create_promise)               \
  FUNCTION(napi_create_reference)             \
  FUNCTION(napi_create_string_utf8)           \
  FUNCTION(napi_create_type_error)            \
  FUNCTION(napi_define_properties)            \
  FUNCTION(napi_delete_async_work)            \
  FUNCTION(napi_delete_reference)             \
  FUNCTION(napi_detach_arraybuffer)           \
  FUNCTION(napi_escape_handle)                \
  FUNCTION(napi_fatal_error)                  \
  FUNCTION(napi_get_and_clear_last_exception) \
  FUNCTION(napi_get_array_length)             \
  FUNCTION(napi_get_arraybuffer_info)         \
  FUNCTION(napi_get_boolean)                  \
  FUNCTION(napi_get_cb_info)                  \
  FUNCTION(napi_get_element)                  \
  FUNCTION(napi_get_instance_data)            \
  FUNCTION(napi_get_last_error_info)          \
  FUNCTION(napi_get_null)                     \
  FUNCTION(napi_get_property)                 \
  FUNCTION(napi_get_reference_value)          \
  FUNCTION(napi_get_typedarray_info)          \
  FUNCTION(napi_get_undefined)                \
  FUNCTION(napi_get_value_bool)               \
  FUNCTION(napi_get_value_double)             \
  FUNCTION(napi_has_property)                 \
  FUNCTION(napi_is_arraybuffer)               \
  FUNCTION(napi_is_detached_arraybuffer)      \
  FUNCTION(napi_is_exception_pending)         \
  FUNCTION(napi_open_escapable_handle_scope)  \
  FUNCTION(napi_open_handle_scope)            \
  FUNCTION(napi_queue_async_work)             \
  FUNCTION(napi_remove_env_cleanup_hook)      \
  FUNCTION(napi_resolve_deferred)             \
  FUNCTION(napi_set_instance_data)            \
  FUNCTION(napi_throw)                        \
  FUNCTION(napi_type_tag_object)              \
  FUNCTION(napi_typeof)                       \
  FUNCTION(napi_unwrap)                       \
  FUNCTION(napi_wrap)

namespace {

// Called in place of a function that the program lacks.
napi_status Missing() {
  return napi_generic_failure;
}

}  // namespace

extern "C" {
#define POINTER(name) void* __imp_##name = reinterpret_cast<void*>(Missing);
SAFETENSORS_MMAP_NODE_API(POINTER)
#undef POINTER
}

namespace {

// Runs before the first call of the addon.
[[maybe_unused]] const bool found = [] {
  const HMODULE program = GetModuleHandleW(nullptr);
  const auto find = [program](void** pointer, const char* name) {
    const FARPROC function = GetProcAddress(program, name);
    if (function != nullptr) *pointer = reinterpret_cast<void*>(function);
  };
#define FIND(name) find(&__imp_##name, #name);
  SAFETENSORS_MMAP_NODE_API(FIND)
#undef FIND
  return true;
}();

}  // namespace
