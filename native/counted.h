// References on an object that several owners share.
#ifndef SAFETENSORS_MMAP_COUNTED_H_
#define SAFETENSORS_MMAP_COUNTED_H_

#include <atomic>
#include <cstdint>
#include <utility>

// Base of objects that several owners share. The object counts its references and is deleted with
// the last one, on whatever thread that is dropped.
class Counted {
 public:
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 protected:
  Counted() = default;
  ~Counted() = default;

  // Those of other threads may be dropped meanwhile.
  uint64_t references() const { return references_.load(std::memory_order_acquire); }

 private:
  template <typename T>
  friend class Ref;

  std::atomic<uint64_t> references_{0};
};

// One reference on a `T`, or empty.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(other.Release()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ == nullptr) return;
    if (object_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object_;
  }

  // For owners that can only hold a plain pointer: `Release` gives the reference up without
  // dropping it, `Adopt` takes it over again.
  T* Release() { return std::exchange(object_, nullptr); }
  static Ref Adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

#endif  // SAFETENSORS_MMAP_COUNTED_H_
