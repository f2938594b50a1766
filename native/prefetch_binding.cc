#include "prefetch_binding.h"

#include <errno.h>

#include <new>

#include "arguments.h"
#include "mapping.h"
#include "prefetch.h"

namespace {

// One call of populate. Made and deleted on the JavaScript thread; between `Execute`'s begin and
// end it belongs to a thread of the pool. A range that is overlaid meanwhile stays mapped, and
// populating the anonymous zero pages costs no memory but the page table's.
//
// Node waits for work under way when an environment ends, and calls `Complete` all the same; at the
// process's exit it may leave it undone, with all else. `Complete` therefore ignores what the
// environment refuses.
struct PopulateWork {
  Mapping* mapping;
  uint64_t offset;
  uint64_t length;
  int error;
  napi_async_work work;
  napi_deferred deferred;
};

void Execute(napi_env, void* data) {
  auto* populate = static_cast<PopulateWork*>(data);
  uint8_t* begin = populate->mapping->base() + populate->offset;
  populate->error = Populate(begin, begin + populate->length, populate->mapping->guarded());
}

void Complete(napi_env env, napi_status status, void* data) {
  auto* populate = static_cast<PopulateWork*>(data);
  populate->mapping->Unref();
  napi_value result;
  const int error = status == napi_ok ? populate->error : ECANCELED;
  if (napi_create_int32(env, -error, &result) == napi_ok) {
    napi_resolve_deferred(env, populate->deferred, result);
  }
  napi_delete_async_work(env, populate->work);
  delete populate;
}

}  // namespace

Napi::Value PopulateRange(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Napi::Value failure;
  const std::optional<MappedRange> range = ToRange(info, &failure);
  if (!range) return failure;

  auto* populate =
      new (std::nothrow) PopulateWork{range->mapping, range->offset, range->length, 0, {}, {}};
  if (populate == nullptr) return Errno(env, ENOMEM);
  const Napi::String name = Napi::String::New(env, "safetensors-mmap:populate");
  if (napi_create_async_work(env, nullptr, name, Execute, Complete, populate, &populate->work) !=
      napi_ok) {
    delete populate;
    return Errno(env, ENOMEM);
  }
  napi_value promise;
  if (napi_create_promise(env, &populate->deferred, &promise) != napi_ok) {
    napi_delete_async_work(env, populate->work);
    delete populate;
    return Errno(env, ENOMEM);
  }
  populate->mapping->Ref();
  if (napi_queue_async_work(env, populate->work) != napi_ok) {
    Complete(env, napi_cancelled, populate);
  }
  return Napi::Value(env, promise);
}

Napi::Value ResidentBytes(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Napi::Value failure;
  const std::optional<MappedRange> range = ToRange(info, &failure);
  if (!range) return failure;

  const uint8_t* begin = range->mapping->base() + range->offset;
  int64_t bytes;
  const int error = CountResident(range->mapping->fd(), begin, begin + range->length, &bytes);
  if (error != 0) return Errno(env, error);
  if (bytes == -1) return env.Null();
  return Napi::Number::New(env, static_cast<double>(bytes));
}
