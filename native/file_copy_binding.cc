// Glue between JavaScript and file_copy.h, with the return values that binding.cc describes.

#include "file_copy_binding.h"

#include <errno.h>

#include <array>
#include <new>

#include "arguments.h"
#include "exports.h"
#include "file_copy.h"

namespace {

// A call with its arguments; what `Run` returns is what JavaScript gets.
struct Allocation {
  int fd = 0;
  uint64_t length = 0;

  int64_t Run() const { return -Allocate(fd, length); }
};

struct Copy {
  int source = 0;
  uint64_t source_position = 0;
  int target = 0;
  uint64_t target_position = 0;
  uint64_t length = 0;

  int64_t Run() const {
    return CopyRange(source, source_position, target, target_position, length);
  }
};

// More would make the call's memory large.
constexpr size_t kMaxRanges = 1024;
constexpr uint64_t kMaxGatheredBytes = uint64_t{16} << 20;

struct Gathering {
  int target = 0;
  uint64_t target_position = 0;
  std::array<SourceRange, kMaxRanges> ranges;
  size_t count = 0;
  size_t length = 0;

  int64_t Run() const {
    return GatherRanges(ranges.data(), count, length, target, target_position);
  }
};

bool ToDescriptor(const Napi::Value& value, int* fd) {
  const std::optional<uint64_t> number = ToSize(value);
  if (!number || *number > INT32_MAX) return false;
  *fd = static_cast<int>(*number);
  return true;
}

bool ToNumber(const Napi::Value& value, uint64_t minimum, uint64_t* number) {
  const std::optional<uint64_t> size = ToSize(value);
  if (!size || *size < minimum) return false;
  *number = *size;
  return true;
}

// The name of the first argument that cannot be used, else null.
const char* ReadArguments(const Napi::CallbackInfo& info, Allocation* allocation) {
  if (!ToDescriptor(info[0], &allocation->fd)) return "fd";
  return ToNumber(info[1], 1, &allocation->length) ? nullptr : "byteLength";
}

const char* ReadArguments(const Napi::CallbackInfo& info, Copy* copy) {
  if (!ToDescriptor(info[0], &copy->source)) return "sourceFd";
  if (!ToNumber(info[1], 0, &copy->source_position)) return "sourcePosition";
  if (!ToDescriptor(info[2], &copy->target)) return "targetFd";
  if (!ToNumber(info[3], 0, &copy->target_position)) return "targetPosition";
  return ToNumber(info[4], 1, &copy->length) ? nullptr : "byteLength";
}

// Ranges as three numbers each: descriptor, position, length.
bool ToRanges(const Napi::Value& value, Gathering* gathering) {
  if (!value.IsTypedArray()) return false;
  if (value.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) return false;
  const auto numbers = value.As<Napi::Float64Array>();
  const size_t count = numbers.ElementLength() / 3;
  if (count == 0 || count > kMaxRanges || numbers.ElementLength() % 3 != 0) return false;
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    SourceRange& range = gathering->ranges[i];
    const auto number = [&](size_t at) {
      return Napi::Number::New(value.Env(), numbers[3 * i + at]);
    };
    if (!ToDescriptor(number(0), &range.fd)) return false;
    if (!ToNumber(number(1), 0, &range.position)) return false;
    if (!ToNumber(number(2), 1, &range.length) || range.length > kMaxGatheredBytes) return false;
    total += range.length;
  }
  gathering->count = count;
  gathering->length = static_cast<size_t>(total);
  return total <= kMaxGatheredBytes;
}

const char* ReadArguments(const Napi::CallbackInfo& info, Gathering* gathering) {
  if (!ToRanges(info[0], gathering)) return "ranges";
  if (!ToDescriptor(info[1], &gathering->target)) return "targetFd";
  return ToNumber(info[2], 0, &gathering->target_position) ? nullptr : "targetPosition";
}

template <typename Call>
Napi::Value RunHere(const Napi::CallbackInfo& info) {
  Call call;
  if (const char* name = ReadArguments(info, &call)) return Unusable(info.Env(), name);
  return Napi::Number::New(info.Env(), static_cast<double>(call.Run()));
}

// A call on the thread pool. Made and deleted on the JavaScript thread; in between a thread of the
// pool has `call` and `result`. An environment that ends waits for its work, and calls `Complete`
// all the same, which therefore ignores what the environment refuses.
template <typename Call>
struct PoolCall {
  Call call;
  int64_t result;
  napi_async_work work;
  napi_deferred deferred;

  static void Execute(napi_env, void* data) {
    auto* self = static_cast<PoolCall*>(data);
    self->result = self->call.Run();
  }

  static void Complete(napi_env env, napi_status status, void* data) {
    auto* self = static_cast<PoolCall*>(data);
    const int64_t number = status == napi_ok ? self->result : -ECANCELED;
    napi_value result;
    if (napi_create_int64(env, number, &result) == napi_ok) {
      napi_resolve_deferred(env, self->deferred, result);
    }
    napi_delete_async_work(env, self->work);
    delete self;
  }
};

template <typename Call>
Napi::Value RunOnPool(const Napi::CallbackInfo& info) {
  using Pool = PoolCall<Call>;
  Napi::Env env = info.Env();
  Call call;
  if (const char* name = ReadArguments(info, &call)) return Unusable(env, name);

  auto* pool_call = new (std::nothrow) Pool{call, 0, nullptr, nullptr};
  if (pool_call == nullptr) return Errno(env, ENOMEM);
  const Napi::String name = Napi::String::New(env, "safetensors-mmap:file-copy");
  if (napi_create_async_work(env, nullptr, name, Pool::Execute, Pool::Complete, pool_call,
                             &pool_call->work) != napi_ok) {
    delete pool_call;
    return Errno(env, ENOMEM);
  }
  napi_value promise;
  if (napi_create_promise(env, &pool_call->deferred, &promise) != napi_ok) {
    napi_delete_async_work(env, pool_call->work);
    delete pool_call;
    return Errno(env, ENOMEM);
  }
  if (napi_queue_async_work(env, pool_call->work) != napi_ok) {
    Pool::Complete(env, napi_cancelled, pool_call);
  }
  return Napi::Value(env, promise);
}

}  // namespace

void ExportFileCopy(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<Allocation>>("allocate"),
             Export<RunOnPool<Allocation>>("allocateAsync"),
             Export<RunHere<Copy>>("copyFileRange"),
             Export<RunOnPool<Copy>>("copyFileRangeAsync"),
             Export<RunHere<Gathering>>("gatherRanges"),
             Export<RunOnPool<Gathering>>("gatherRangesAsync"),
         });
}
