// Node-API for the harness of threads: what the addon calls, without Node.
#ifndef SAFETENSORS_MMAP_TEST_NODE_API_H_
#define SAFETENSORS_MMAP_TEST_NODE_API_H_

#include <node_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A stand-in for Node-API and the event loop: as much as the addon calls, in a program that
// ThreadSanitizer sees as a whole. Environments run on separate threads, as workers do, and
// share one pool, as libuv's. Functions that the addon links but never calls are missing: to call
// it ends the program.

// A value of any kind. Belongs to its environment, whose thread alone uses it.
struct napi_value__ {
  napi_valuetype type = napi_undefined;
  double number = 0;
  std::string text;
  std::vector<napi_value> items;

  // Of a buffer or a typed array, which has no buffer here.
  bool is_buffer = false;
  bool is_detached = false;
  napi_typedarray_type array_type = napi_uint8_array;
  void* data = nullptr;
  size_t length = 0;

  // The argument of a finalizer: of an external buffer, or of an object that wraps something.
  napi_finalize finalize = nullptr;
  void* wrapped = nullptr;
  void* hint = nullptr;
  napi_type_tag tag = {};

  // By how many it is held beyond the turn of the event loop that made it. It holds its items.
  int holders = 0;
  // Its turn is over, and nobody can reach it any more: the next collection takes it.
  bool is_garbage = false;
};

struct napi_ref__ {
  napi_value value;
  bool is_strong;
};

// A promise that the addon resolves.
struct napi_deferred__ {};

struct napi_async_work__ {
  napi_env env;
  napi_async_execute_callback execute;
  napi_async_complete_callback complete;
  void* data;
};

// Arguments of a called function.
struct napi_callback_info__ {
  const std::vector<napi_value>* arguments;
};

// The threads that run work of all environments.
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  void Add(std::function<void()> work);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::function<void()>> work_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

// An environment with the addon loaded. All members are for the thread that made it, unless they
// say otherwise.
struct napi_env__ {
 public:
  // `finalizes_elsewhere` says that finalizers run on threads of the pool, as Deno has it.
  napi_env__(Pool* pool, bool finalizes_elsewhere);

  // As when a worker ends: work under way comes to its end, and calls that could run JavaScript
  // fail; then everything that is alive is finalized, after the environment's data.
  ~napi_env__();

  napi_value New(napi_valuetype type);
  napi_value Number(double number);
  napi_value Boolean(bool value);
  napi_value Array(std::vector<napi_value> items);
  // A typed array over memory of `buffer`, or over memory that outlives it.
  napi_value TypedArray(napi_typedarray_type type, void* data, size_t length,
                        napi_value buffer = nullptr);

  // Calls one of the addon's functions.
  napi_value Call(const char* name, const std::vector<napi_value>& arguments);

  // A turn of the event loop: completes work that has run, and runs the finalizers of what was
  // collected. `wait` is for all work under way. Afterwards all values are garbage but those that
  // are held.
  void Turn(bool wait = false);

  // Runs work on the pool, and completes it in a later turn.
  void Queue(napi_async_work work);

  // What V8 does when it is told of much external memory: clears weak references on garbage, whose
  // finalizers run in a later turn.
  void Collect();

  // From here on, for the functions of Node-API.
  void* instance = nullptr;
  napi_finalize finalize_instance = nullptr;
  std::vector<std::pair<void (*)(void*), void*>> cleanup_hooks;
  std::vector<std::unique_ptr<napi_ref__>> references;
  std::map<std::string, napi_callback> functions;
  std::vector<std::unique_ptr<napi_value__>> values;
  std::vector<std::unique_ptr<napi_value__>> collected;
  int64_t external_memory = 0;
  bool is_ending = false;

 private:
  // Runs `work` on the pool; the environment does not end before that has ended.
  void RunOnPool(std::function<void()> work);
  void FinalizeCollected();

  Pool* const pool_;
  const bool finalizes_elsewhere_;
  // For the rest, which threads of the pool use too.
  std::mutex mutex_;
  std::condition_variable ran_;
  std::vector<napi_async_work> done_;
  int under_way_ = 0;
};

#endif  // SAFETENSORS_MMAP_TEST_NODE_API_H_
