// Runs a call on the JavaScript thread, or as a promise on the thread pool.
#ifndef SAFETENSORS_MMAP_CALL_H_
#define SAFETENSORS_MMAP_CALL_H_

#include <errno.h>
#include <napi.h>

#include <memory>
#include <new>

#include "arguments.h"
#include "kept.h"

// Calls that run on the JavaScript thread or on libuv's thread pool.
//
// A `Call` holds the arguments of one call, and owns what keeps them valid. It has
//
//     static constexpr char kName[]         the name of the work, which `async_hooks` shows
//     Failure Read(const CallbackInfo&)     takes the arguments, on the JavaScript thread
//     int64_t Run() const                   does the work on any thread, without an environment:
//                                           returns a count or 0, or a negative errno

// Runs the call here; JavaScript gets what `Run` returns.
template <typename Call>
napi_value RunHere(const Napi::CallbackInfo& info) {
  Call call;
  if (const Failure failure = call.Read(info)) return failure.ToValue(info.Env());
  return Result(info.Env(), call.Run());
}

// A call on the thread pool. The JavaScript thread makes and deletes it; in between it belongs to
// the thread that runs it.
//
// When an environment ends, Node waits for work under way and still calls `Complete`, whose calls
// to Node-API then fail: nobody waits for the promise any more. When the process exits, Node may
// leave the work undone.
template <typename Call>
class PoolCall {
 public:
  explicit PoolCall(napi_env env) : env_(env) {}
  PoolCall(const PoolCall&) = delete;
  PoolCall& operator=(const PoolCall&) = delete;
  ~PoolCall() {
    if (work_ != nullptr) napi_delete_async_work(env_, work_);
  }

  static napi_value Queue(const Napi::CallbackInfo& info) {
    napi_env env = info.Env();
    std::unique_ptr<PoolCall> self(new (std::nothrow) PoolCall(env));
    if (!self) return Result(env, -ENOMEM);
    if (const Failure failure = self->call_.Read(info)) return failure.ToValue(env);

    napi_value name;
    napi_value promise;
    if (napi_create_string_utf8(env, Call::kName, NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_async_work(env, nullptr, name, Execute, Complete, self.get(), &self->work_) !=
            napi_ok ||
        napi_create_promise(env, &self->deferred_, &promise) != napi_ok) {
      return Result(env, -ENOMEM);
    }
    const napi_status status = napi_queue_async_work(env, self->work_);
    PoolCall* queued = self.release();
    if (status != napi_ok) Complete(env, napi_cancelled, queued);
    return promise;
  }

 private:
  static void Execute(napi_env, void* data) {
    auto* self = static_cast<PoolCall*>(data);
    self->result_ = self->call_.Run();
  }

  // Work that was cancelled has not run.
  static void Complete(napi_env env, napi_status status, void* data) {
    const std::unique_ptr<PoolCall> self(static_cast<PoolCall*>(data));
    const napi_value result = Result(env, status == napi_ok ? self->result_ : -ECANCELED);
    if (result != nullptr) napi_resolve_deferred(env, self->deferred_, result);
  }

  napi_env env_;
  Call call_;
  int64_t result_ = 0;
  napi_async_work work_ = nullptr;
  napi_deferred deferred_ = nullptr;
};

// Runs the call on the pool; JavaScript gets a promise of what `Run` returns, or of -ECANCELED.
template <typename Call>
napi_value RunOnPool(const Napi::CallbackInfo& info) {
  return PoolCall<Call>::Queue(info);
}

// A call on the pool with references on its arrays, `kCount` arguments from `kFirst` on.
// References don't prevent detaching: the caller must pass memory that no other code can reach.
template <typename Call, size_t kFirst, size_t kCount = 2>
struct PoolCallOverArrays : Call {
  Kept kept[kCount];

  Failure Read(const Napi::CallbackInfo& info) {
    if (const Failure failure = Call::Read(info)) return failure;
    for (size_t i = 0; i < kCount; i++) {
      if (!kept[i].Keep(info.Env(), info[kFirst + i])) return -ENOMEM;
    }
    return {};
  }
};

#endif  // SAFETENSORS_MMAP_CALL_H_
