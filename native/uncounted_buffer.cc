#include "uncounted_buffer.h"

#include <errno.h>

// The calls take V8's standard library and calling convention for granted.
#if defined(__linux__) && defined(__x86_64__) && defined(__GLIBC__) && defined(__GLIBCXX__)

#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

// What we call of V8. The names hold the types of the arguments. The loader of the addon looks for
// them, and leaves null for one that the runtime does not export.
namespace v8_abi {

struct Isolate;
struct BackingStore;
using Deleter = void (*)(void* data, size_t length, void* hint);

[[gnu::weak]] void EmptyDeleter(void* data, size_t length,
                                void* hint) __asm__("_ZN2v812BackingStore12EmptyDeleterEPvmS1_");
[[gnu::weak]] void EndBackingStore(BackingStore* store) __asm__("_ZN2v812BackingStoreD1Ev");

// Frees a backing store as V8's own pointers do. The runtime's `operator delete` pairs with its
// `new`; the loader finds that one for us, since it looks in the addon last.
struct FreeBackingStore {
  void operator()(BackingStore* store) const {
    EndBackingStore(store);
    ::operator delete(store);
  }
};

[[gnu::weak]] std::unique_ptr<BackingStore, FreeBackingStore> NewBackingStore(
    void* data, size_t length, Deleter deleter,
    void* hint) __asm__("_ZN2v811ArrayBuffer15NewBackingStoreEPvmPFvS1_mS1_ES1_");
[[gnu::weak]] Isolate* GetCurrentIsolate() __asm__("_ZN2v87Isolate10GetCurrentEv");
// A `v8::Local` is what Node-API calls a value.
[[gnu::weak]] napi_value
NewArrayBuffer(Isolate* isolate, std::shared_ptr<BackingStore> store) __asm__(
    "_ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE");

}  // namespace v8_abi

namespace {

using v8_abi::BackingStore;

// Addresses without memory. So long that the test's buffer outweighs whatever else a collection
// takes from the engine's counter meanwhile.
constexpr size_t kTestLength = size_t{1} << 30;

template <typename Function>
uintptr_t AddressOf(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

// Whether all functions are in one object, and it is the one that has Node-API.
int HasFunctions(struct dl_phdr_info* object, size_t, void*) {
  for (const uintptr_t address :
       {AddressOf(&napi_create_external_arraybuffer), AddressOf(&v8_abi::EmptyDeleter),
        AddressOf(&v8_abi::EndBackingStore), AddressOf(&v8_abi::NewBackingStore),
        AddressOf(&v8_abi::GetCurrentIsolate), AddressOf(&v8_abi::NewArrayBuffer)}) {
    bool is_inside = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
      const ElfW(Phdr) & part = object->dlpi_phdr[i];
      const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
      is_inside |= part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz;
    }
    if (!is_inside) return 0;
  }
  return 1;
}

// The store frees nothing but itself. `let_go` is called when its last owner drops it, on whatever
// thread that happens.
template <typename Function>
std::shared_ptr<BackingStore> MakeStore(void* data, size_t length, Function let_go) {
  auto store = v8_abi::NewBackingStore(data, length, v8_abi::EmptyDeleter, nullptr);
  return {store.release(), [let_go = std::move(let_go)](BackingStore* ended) mutable {
            v8_abi::FreeBackingStore()(ended);
            let_go();
          }};
}

// Whether a store ends once, with its last owner.
bool TestOwnership(void* memory) {
  int ended = 0;
  std::shared_ptr<BackingStore> store = MakeStore(memory, kTestLength, [&ended] { ended++; });
  std::shared_ptr<BackingStore> copy = store;
  store.reset();
  if (ended != 0) return false;
  copy.reset();
  return ended == 1;
}

// Whether a buffer is what we asked for, and not counted. A collection can lower the counter
// meanwhile. No buffer is detached here: the first one slows typed arrays.
bool TestBuffer(napi_env env, v8_abi::Isolate* isolate, void* memory) {
  int64_t before = 0;
  int64_t after = 0;
  bool is_buffer = false;
  void* data = nullptr;
  size_t length = 0;
  const napi_status status = napi_adjust_external_memory(env, 0, &before);
  napi_value buffer = v8_abi::NewArrayBuffer(isolate, MakeStore(memory, kTestLength, [] {}));
  return status == napi_ok && napi_adjust_external_memory(env, 0, &after) == napi_ok &&
         after <= before && napi_is_arraybuffer(env, buffer, &is_buffer) == napi_ok && is_buffer &&
         napi_get_arraybuffer_info(env, buffer, &data, &length) == napi_ok && data == memory &&
         length == kTestLength;
}

}  // namespace

int UncountedBuffers::Enable(napi_env env, uint64_t max_length) {
  if (dl_iterate_phdr(HasFunctions, nullptr) == 0) return -ENOSYS;
  v8_abi::Isolate* isolate = v8_abi::GetCurrentIsolate();
  if (isolate == nullptr) return -EPROTO;
  void* memory =
      mmap(nullptr, kTestLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  napi_handle_scope scope;
  napi_open_handle_scope(env, &scope);
  const bool works = TestOwnership(memory) && TestBuffer(env, isolate, memory);
  napi_close_handle_scope(env, scope);
  // The buffer is garbage: nobody can reach it, and the engine does not look at its memory.
  munmap(memory, kTestLength);
  if (!works) return -EPROTO;
  max_length_ = max_length;
  return 0;
}

napi_value UncountedBuffers::Create(Mapping* mapping, uint64_t offset, uint64_t length) const {
  if (length > max_length_) return nullptr;
  v8_abi::Isolate* isolate = v8_abi::GetCurrentIsolate();
  if (isolate == nullptr) return nullptr;
  const auto let_go = [reference = MappingRef(mapping)]() mutable { reference = {}; };
  return v8_abi::NewArrayBuffer(isolate, MakeStore(mapping->base() + offset, length, let_go));
}

#else

int UncountedBuffers::Enable(napi_env, uint64_t) {
  return -ENOSYS;
}

napi_value UncountedBuffers::Create(Mapping*, uint64_t, uint64_t) const {
  return nullptr;
}

#endif
