// The pool and the environments of node_api.h.

#include <algorithm>
#include <iterator>

#include "node_api.h"

// The addon's start.
extern "C" napi_value napi_register_module_v1(napi_env env, napi_value exports);

namespace {

void Finalize(napi_env env, napi_value__& value) {
  if (value.finalize == nullptr) return;
  std::exchange(value.finalize, nullptr)(env, value.is_buffer ? value.data : value.wrapped,
                                         value.hint);
}

}  // namespace

Pool::Pool(int threads) {
  for (int i = 0; i < threads; i++) threads_.emplace_back([this] { Run(); });
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::Add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.insert(work_.begin(), std::move(work));
  }
  added_.notify_one();
}

void Pool::Run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return is_over_ || !work_.empty(); });
      if (work_.empty()) return;
      work = std::move(work_.back());
      work_.pop_back();
    }
    work();
  }
}

napi_env__::napi_env__(Pool* pool, bool finalizes_elsewhere)
    : pool_(pool), finalizes_elsewhere_(finalizes_elsewhere) {
  napi_register_module_v1(this, New(napi_object));
}

napi_env__::~napi_env__() {
  is_ending = true;
  Turn(true);
  for (const auto& [hook, data] : std::exchange(cleanup_hooks, {})) hook(data);
  finalize_instance(this, instance, nullptr);
  for (auto& value : std::exchange(values, {})) collected.push_back(std::move(value));
  FinalizeCollected();
  Turn(true);
}

void napi_env__::RunOnPool(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    under_way_++;
  }
  pool_->Add([this, work = std::move(work)] {
    work();
    const std::lock_guard lock(mutex_);
    under_way_--;
    ran_.notify_one();
  });
}

void napi_env__::Queue(napi_async_work work) {
  RunOnPool([this, work] {
    work->execute(this, work->data);
    const std::lock_guard lock(mutex_);
    done_.push_back(work);
  });
}

void napi_env__::FinalizeCollected() {
  // A function of the pool must be one that can be copied.
  const auto taken = std::make_shared<decltype(collected)>(std::exchange(collected, {}));
  const auto finalize = [this, taken] {
    for (const auto& value : *taken) Finalize(this, *value);
  };
  if (taken->empty()) return;
  if (finalizes_elsewhere_) {
    RunOnPool(finalize);
  } else {
    finalize();
  }
}

// An array of typed arrays holds the buffers of these, too.
static void MarkReachable(napi_value value) {
  value->is_garbage = false;
  for (napi_value item : value->items) MarkReachable(item);
}

void napi_env__::Turn(bool wait) {
  std::vector<napi_async_work> done;
  {
    std::unique_lock lock(mutex_);
    if (wait) ran_.wait(lock, [this] { return under_way_ == 0; });
    done.swap(done_);
  }
  for (napi_async_work work : done) work->complete(this, napi_ok, work->data);
  FinalizeCollected();
  for (const auto& value : values) value->is_garbage = true;
  for (const auto& value : values) {
    if (value->holders > 0) MarkReachable(value.get());
  }
}

void napi_env__::Collect() {
  for (const auto& reference : references) {
    if (reference->value != nullptr && reference->value->is_garbage) reference->value = nullptr;
  }
  const auto is_reachable = [](const auto& value) { return !value->is_garbage; };
  const auto garbage = std::stable_partition(values.begin(), values.end(), is_reachable);
  std::move(garbage, values.end(), std::back_inserter(collected));
  values.erase(garbage, values.end());
}

napi_value napi_env__::New(napi_valuetype type) {
  values.push_back(std::make_unique<napi_value__>());
  values.back()->type = type;
  return values.back().get();
}

napi_value napi_env__::Number(double number) {
  napi_value value = New(napi_number);
  value->number = number;
  return value;
}

napi_value napi_env__::Boolean(bool boolean) {
  napi_value value = New(napi_boolean);
  value->number = boolean ? 1 : 0;
  return value;
}

napi_value napi_env__::Array(std::vector<napi_value> items) {
  napi_value value = New(napi_object);
  value->items = std::move(items);
  return value;
}

napi_value napi_env__::TypedArray(napi_typedarray_type type, void* data, size_t length,
                                  napi_value buffer) {
  napi_value value = New(napi_object);
  if (buffer != nullptr) value->items.push_back(buffer);
  value->array_type = type;
  value->data = data;
  value->length = length;
  return value;
}

napi_value napi_env__::Call(const char* name, const std::vector<napi_value>& arguments) {
  napi_callback_info__ info = {&arguments};
  return functions.at(name)(this, &info);
}
