// Glue between JavaScript and the kernels, with the return values that binding.cc describes.

#include "convert_binding.h"

#include <errno.h>

#include <new>

#include "convert.h"
#include "exports.h"

namespace {

// One call of a kernel.
struct Conversion {
  Kernel kernel = nullptr;
  const uint8_t* source = nullptr;
  float* output = nullptr;
  size_t value_count = 0;

  void Run() const { kernel(source, output, value_count); }
};

// The items of a typed array; false when the value is none of that type.
template <typename Item>
bool ToItems(const Napi::Value& value, napi_typedarray_type expected, Item** items, size_t* count) {
  napi_typedarray_type type;
  void* data = nullptr;
  if (!value.IsTypedArray() ||
      napi_get_typedarray_info(value.Env(), value, &type, count, &data, nullptr, nullptr) !=
          napi_ok ||
      type != expected) {
    return false;
  }
  *items = static_cast<Item*>(data);
  return true;
}

bool ToCode(const Napi::Value& value, uint32_t count, uint32_t* code) {
  if (!value.IsNumber()) return false;
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number < count)) return false;
  *code = static_cast<uint32_t>(number);
  return *code == number;
}

Napi::Value Errno(Napi::Env env, int error) {
  return Napi::Number::New(env, -error);
}

// Checks (dtype, bytes, output, level). Returns the value to hand back, or an empty one when the
// conversion can run.
Napi::Value ToConversion(const Napi::CallbackInfo& info, Conversion* conversion) {
  Napi::Env env = info.Env();
  uint32_t dtype;
  uint32_t level;
  size_t byte_length = 0;
  const auto unusable = [env](const char* name) { return Napi::String::New(env, name); };
  if (!ToCode(info[0], kDtypeCount, &dtype)) return unusable("dtype");
  if (!ToItems(info[1], napi_uint8_array, &conversion->source, &byte_length)) {
    return unusable("bytes");
  }
  if (!ToItems(info[2], napi_float32_array, &conversion->output, &conversion->value_count)) {
    return unusable("output");
  }
  if (!ToCode(info[3], kLevelCount, &level)) return unusable("level");
  const uint64_t bits = uint64_t{conversion->value_count} * BitsPerValue(static_cast<Dtype>(dtype));
  if (bits != uint64_t{byte_length} * 8) return unusable("output");
  conversion->kernel = FindKernel(static_cast<Dtype>(dtype), static_cast<Level>(level));
  return conversion->kernel == nullptr ? Errno(env, ENOTSUP) : Napi::Value();
}

// convert(dtype, bytes, output, level): void
Napi::Value Convert(const Napi::CallbackInfo& info) {
  Conversion conversion;
  const Napi::Value failure = ToConversion(info, &conversion);
  if (!failure.IsEmpty()) return failure;
  conversion.Run();
  return Errno(info.Env(), 0);
}

// A conversion on the thread pool. Made and ended on the JavaScript thread; in between a thread of
// the pool has `conversion`. The references keep both arrays from being collected, but not from
// being detached: that JavaScript hands over only memory that nobody else knows is the caller's
// promise. An environment that ends waits for its work.
struct PoolConversion {
  Conversion conversion;
  napi_ref bytes = nullptr;
  napi_ref output = nullptr;
  napi_async_work work = nullptr;
  napi_deferred deferred = nullptr;

  void Delete(napi_env env) {
    if (bytes != nullptr) napi_delete_reference(env, bytes);
    if (output != nullptr) napi_delete_reference(env, output);
    if (work != nullptr) napi_delete_async_work(env, work);
    delete this;
  }
};

// On a thread of the pool: no environment here.
void Execute(napi_env, void* data) {
  static_cast<PoolConversion*>(data)->conversion.Run();
}

// On the JavaScript thread. When the environment is ending nobody waits, and settling fails.
void Complete(napi_env env, napi_status, void* data) {
  auto* pool_conversion = static_cast<PoolConversion*>(data);
  napi_value undefined;
  if (napi_get_undefined(env, &undefined) == napi_ok) {
    napi_resolve_deferred(env, pool_conversion->deferred, undefined);
  }
  pool_conversion->Delete(env);
}

// convertAsync(dtype, bytes, output, level): Promise<void>
Napi::Value ConvertAsync(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Conversion conversion;
  const Napi::Value failure = ToConversion(info, &conversion);
  if (!failure.IsEmpty()) return failure;

  auto* pool_conversion = new (std::nothrow) PoolConversion{conversion};
  if (pool_conversion == nullptr) return Errno(env, ENOMEM);
  napi_value promise;
  const Napi::String name = Napi::String::New(env, "safetensors-mmap.convert");
  if (napi_create_reference(env, info[1], 1, &pool_conversion->bytes) != napi_ok ||
      napi_create_reference(env, info[2], 1, &pool_conversion->output) != napi_ok ||
      napi_create_async_work(env, nullptr, name, Execute, Complete, pool_conversion,
                             &pool_conversion->work) != napi_ok ||
      napi_create_promise(env, &pool_conversion->deferred, &promise) != napi_ok ||
      napi_queue_async_work(env, pool_conversion->work) != napi_ok) {
    pool_conversion->Delete(env);
    return Errno(env, ENOMEM);
  }
  return Napi::Value(env, promise);
}

}  // namespace

void ExportConvert(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<Convert>("convert"),
             Export<ConvertAsync>("convertAsync"),
         });
}
