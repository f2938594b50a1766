// Those functions, and GNU's shared and unique pointers as V8 lays them out.
#ifndef SAFETENSORS_MMAP_V8_ABI_H_
#define SAFETENSORS_MMAP_V8_ABI_H_

#include <node_api.h>

#include <atomic>
#include <cstddef>
#include <utility>

// What we call of V8, as a Node made with GNU's C++ library has it. The addon may be made with
// another library, or with none: nothing here is laid out by the compiler's own headers.
namespace v8_abi {

struct Isolate;
struct BackingStore;
using Deleter = void (*)(void* data, size_t length, void* hint);

// Frees a backing store as V8's own pointers do. False without the runtime's `operator delete`.
bool CanFreeBackingStores();
void FreeBackingStore(BackingStore* store);

// What counts the owners of a `std::shared_ptr`: `std::_Sp_counted_base` of GNU's library, with its
// virtual functions in their order, and its counts at their places. V8 takes and drops owners.
class ControlBlock {
 public:
  ControlBlock() = default;
  ControlBlock(const ControlBlock&) = delete;
  ControlBlock& operator=(const ControlBlock&) = delete;
  virtual ~ControlBlock() = default;
  // The last owner is gone, on whatever thread.
  virtual void Dispose() noexcept {}
  // Nobody asks for the counts any more.
  virtual void Destroy() noexcept { delete this; }
  virtual void* GetDeleter(const void*) noexcept { return nullptr; }

  int owners() const { return owners_.load(std::memory_order_acquire); }

  void Drop() {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Dispose();
    if (observers_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy();
  }

 private:
  std::atomic<int> owners_{1};
  // Weak pointers, and one for all owners together.
  std::atomic<int> observers_{1};
};
static_assert(sizeof(ControlBlock) == 16 && sizeof(std::atomic<int>) == 4);

// `std::shared_ptr<BackingStore>` of GNU's library. Owns one of the block's counts.
class SharedStore {
 public:
  SharedStore(BackingStore* store, ControlBlock* block) : store_(store), block_(block) {}
  SharedStore(SharedStore&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        block_(std::exchange(other.block_, nullptr)) {}
  SharedStore& operator=(SharedStore&&) = delete;
  ~SharedStore() {
    if (block_ != nullptr) block_->Drop();
  }

  bool operator==(const SharedStore& other) const {
    return store_ == other.store_ && block_ == other.block_;
  }

 private:
  BackingStore* store_;
  ControlBlock* block_;
};

// `std::unique_ptr<BackingStore>`, whose owner takes the store out. Not trivial to copy, so that it
// is returned as that is.
struct UniqueStore {
  explicit UniqueStore(BackingStore* made) : store(made) {}
  UniqueStore(UniqueStore&& other) noexcept : store(std::exchange(other.store, nullptr)) {}
  UniqueStore& operator=(UniqueStore&&) = delete;
  ~UniqueStore() {
    if (store != nullptr) FreeBackingStore(store);
  }

  BackingStore* store;
};

// The names hold the types of the arguments. The loader of the addon looks for them, and leaves
// null for one that the runtime does not export.
[[gnu::weak]] void EmptyDeleter(void* data, size_t length,
                                void* hint) __asm__("_ZN2v812BackingStore12EmptyDeleterEPvmS1_");
[[gnu::weak]] void EndBackingStore(BackingStore* store) __asm__("_ZN2v812BackingStoreD1Ev");
[[gnu::weak]] UniqueStore NewBackingStore(
    void* data, size_t length, Deleter deleter,
    void* hint) __asm__("_ZN2v811ArrayBuffer15NewBackingStoreEPvmPFvS1_mS1_ES1_");
[[gnu::weak]] Isolate* GetCurrentIsolate() __asm__("_ZN2v87Isolate10GetCurrentEv");
// A `v8::Local` is what Node-API calls a value.
[[gnu::weak]] napi_value NewArrayBuffer(Isolate* isolate, SharedStore store) __asm__(
    "_ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE");
[[gnu::weak]] SharedStore GetBackingStore(napi_value buffer) __asm__(
    "_ZN2v811ArrayBuffer15GetBackingStoreEv");

}  // namespace v8_abi

#endif  // SAFETENSORS_MMAP_V8_ABI_H_
