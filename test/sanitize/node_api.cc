// The functions of Node-API that the addon calls, over node_api.h.

#include "node_api.h"

#include <algorithm>

extern "C" {

napi_status napi_define_properties(napi_env env, napi_value, size_t count,
                                   const napi_property_descriptor* properties) {
  for (size_t i = 0; i < count; i++) {
    env->functions[properties[i].utf8name] = properties[i].method;
  }
  return napi_ok;
}

napi_status napi_get_cb_info(napi_env env, napi_callback_info info, size_t* count,
                             napi_value* arguments, napi_value* self, void** data) {
  const size_t given = info->arguments->size();
  for (size_t i = 0; arguments != nullptr && i < *count; i++) {
    arguments[i] = i < given ? (*info->arguments)[i] : env->New(napi_undefined);
  }
  *count = given;
  if (self != nullptr) *self = nullptr;
  if (data != nullptr) *data = nullptr;
  return napi_ok;
}

napi_status napi_get_undefined(napi_env env, napi_value* result) {
  *result = env->New(napi_undefined);
  return napi_ok;
}

napi_status napi_get_null(napi_env env, napi_value* result) {
  *result = env->New(napi_null);
  return napi_ok;
}

napi_status napi_get_boolean(napi_env env, bool value, napi_value* result) {
  *result = env->Boolean(value);
  return napi_ok;
}

napi_status napi_create_int64(napi_env env, int64_t number, napi_value* result) {
  if (env->is_ending) return napi_generic_failure;
  *result = env->Number(static_cast<double>(number));
  return napi_ok;
}

napi_status napi_create_string_utf8(napi_env env, const char* text, size_t, napi_value* result) {
  *result = env->New(napi_string);
  (*result)->text = text;
  return napi_ok;
}

napi_status napi_create_object(napi_env env, napi_value* result) {
  *result = env->New(napi_object);
  return napi_ok;
}

napi_status napi_typeof(napi_env, napi_value value, napi_valuetype* result) {
  *result = value->type;
  return napi_ok;
}

napi_status napi_get_value_bool(napi_env, napi_value value, bool* result) {
  if (value->type != napi_boolean) return napi_boolean_expected;
  *result = value->number != 0;
  return napi_ok;
}

napi_status napi_get_value_double(napi_env, napi_value value, double* result) {
  if (value->type != napi_number) return napi_number_expected;
  *result = value->number;
  return napi_ok;
}

napi_status napi_get_array_length(napi_env, napi_value value, uint32_t* result) {
  *result = static_cast<uint32_t>(value->items.size());
  return napi_ok;
}

napi_status napi_get_element(napi_env, napi_value value, uint32_t index, napi_value* result) {
  *result = value->items[index];
  return napi_ok;
}

napi_status napi_open_handle_scope(napi_env, napi_handle_scope*) {
  return napi_ok;
}

napi_status napi_close_handle_scope(napi_env, napi_handle_scope) {
  return napi_ok;
}

napi_status napi_set_instance_data(napi_env env, void* data, napi_finalize finalize, void*) {
  env->instance = data;
  env->finalize_instance = finalize;
  return napi_ok;
}

napi_status napi_get_instance_data(napi_env env, void** data) {
  *data = env->instance;
  return napi_ok;
}

napi_status napi_add_env_cleanup_hook(napi_env env, void (*hook)(void*), void* data) {
  env->cleanup_hooks.emplace_back(hook, data);
  return napi_ok;
}

napi_status napi_remove_env_cleanup_hook(napi_env env, void (*hook)(void*), void* data) {
  auto& hooks = env->cleanup_hooks;
  const auto found = std::find(hooks.begin(), hooks.end(), std::pair(hook, data));
  if (found != hooks.end()) hooks.erase(found);
  return napi_ok;
}

napi_status napi_adjust_external_memory(napi_env env, int64_t change, int64_t* result) {
  constexpr int64_t kMuch = int64_t{1} << 39;
  env->external_memory += change;
  if (change >= kMuch) env->Collect();
  *result = env->external_memory;
  return napi_ok;
}

napi_status napi_wrap(napi_env env, napi_value value, void* data, napi_finalize finalize, void*,
                      napi_ref* result) {
  value->wrapped = data;
  value->finalize = finalize;
  return result == nullptr ? napi_ok : napi_create_reference(env, value, 0, result);
}

napi_status napi_unwrap(napi_env, napi_value value, void** result) {
  *result = value->wrapped;
  return napi_ok;
}

napi_status napi_type_tag_object(napi_env, napi_value value, const napi_type_tag* tag) {
  value->tag = *tag;
  return napi_ok;
}

napi_status napi_check_object_type_tag(napi_env, napi_value value, const napi_type_tag* tag,
                                       bool* result) {
  *result = value->tag.lower == tag->lower && value->tag.upper == tag->upper;
  return napi_ok;
}

napi_status napi_create_reference(napi_env env, napi_value value, uint32_t count,
                                  napi_ref* result) {
  if (count > 0) value->holders++;
  env->references.push_back(std::make_unique<napi_ref__>(napi_ref__{value, count > 0}));
  *result = env->references.back().get();
  return napi_ok;
}

napi_status napi_delete_reference(napi_env env, napi_ref reference) {
  if (reference->is_strong) reference->value->holders--;
  auto& all = env->references;
  all.erase(std::find_if(all.begin(), all.end(),
                         [reference](const auto& other) { return other.get() == reference; }));
  return napi_ok;
}

napi_status napi_get_reference_value(napi_env, napi_ref reference, napi_value* result) {
  *result = reference->value;
  return napi_ok;
}

napi_status napi_create_external_arraybuffer(napi_env env, void* data, size_t length,
                                             napi_finalize finalize, void* hint,
                                             napi_value* result) {
  *result = env->New(napi_object);
  napi_value__& buffer = **result;
  buffer.is_buffer = true;
  buffer.data = data;
  buffer.length = length;
  buffer.finalize = finalize;
  buffer.hint = hint;
  return napi_ok;
}

napi_status napi_is_arraybuffer(napi_env, napi_value value, bool* result) {
  *result = value->is_buffer;
  return napi_ok;
}

napi_status napi_get_arraybuffer_info(napi_env, napi_value value, void** data, size_t* length) {
  *data = value->is_detached ? nullptr : value->data;
  *length = value->is_detached ? 0 : value->length;
  return napi_ok;
}

napi_status napi_detach_arraybuffer(napi_env, napi_value value) {
  value->is_detached = true;
  return napi_ok;
}

napi_status napi_is_detached_arraybuffer(napi_env, napi_value value, bool* result) {
  *result = value->is_detached;
  return napi_ok;
}

napi_status napi_get_typedarray_info(napi_env, napi_value value, napi_typedarray_type* type,
                                     size_t* length, void** data, napi_value*, size_t*) {
  if (value->data == nullptr || value->is_buffer) return napi_invalid_arg;
  *type = value->array_type;
  *length = value->length;
  *data = value->data;
  return napi_ok;
}

napi_status napi_create_promise(napi_env env, napi_deferred* deferred, napi_value* promise) {
  *deferred = new napi_deferred__();
  *promise = env->New(napi_object);
  return napi_ok;
}

napi_status napi_resolve_deferred(napi_env, napi_deferred deferred, napi_value) {
  delete deferred;
  return napi_ok;
}

napi_status napi_create_async_work(napi_env env, napi_value, napi_value,
                                   napi_async_execute_callback execute,
                                   napi_async_complete_callback complete, void* data,
                                   napi_async_work* result) {
  *result = new napi_async_work__{env, execute, complete, data};
  return napi_ok;
}

napi_status napi_delete_async_work(napi_env, napi_async_work work) {
  delete work;
  return napi_ok;
}

napi_status napi_queue_async_work(napi_env env, napi_async_work work) {
  env->Queue(work);
  return napi_ok;
}

}  // extern "C"
