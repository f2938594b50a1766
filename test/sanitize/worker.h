// An environment with its own thread, as a worker has it.
#ifndef SAFETENSORS_MMAP_TEST_WORKER_H_
#define SAFETENSORS_MMAP_TEST_WORKER_H_

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../native/convert.h"
#include "node_api.h"

using Random = std::mt19937;

inline constexpr size_t kPage = 4096;
inline constexpr size_t kLength = 64 * kPage;

// Two files that change while they are mapped, and one that stays.
class Files {
 public:
  static constexpr size_t kCount = 3;

  explicit Files(std::string folder) : folder_(std::move(folder)) {
    const std::vector<uint8_t> bytes(kLength, 7);
    for (size_t i = 0; i < kCount; i++) {
      descriptors_[i] = Make(std::to_string(i));
      if (write(descriptors_[i], bytes.data(), kLength) != kLength) abort();
    }
  }
  ~Files() {
    for (const int descriptor : descriptors_) close(descriptor);
  }

  int descriptor(size_t i) const { return descriptors_[i]; }
  static bool Stays(size_t i) { return i == kCount - 1; }

  // Its name is free at once.
  int Make(const std::string& name) const {
    const std::string path = Path(name);
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor == -1 || unlink(path.c_str()) != 0) abort();
    return descriptor;
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  const std::string folder_;
  std::array<int, kCount> descriptors_;
};

// How often each of the addon's functions was called.
using Calls = std::map<std::string, size_t>;

// An environment, and what its JavaScript does.
class Worker {
 public:
  Worker(Pool* pool, const Files& files, uint32_t seed, Calls* calls)
      : files_(files), random_(seed), calls_(calls), scratch_(files.Make(std::to_string(seed))) {
    const bool is_node = seed % 4 != 0;
    env_ = std::make_unique<napi_env__>(pool, !is_node);
    for (const auto& function : env_->functions) (*calls_)[function.first] += 0;
    // Where finalizers run on other threads the addon is not asked to.
    if (is_node) Call("compensateExternalMemory", {});
    Call("uncountBuffers", {Number(1 << 30)});
    for (const char* name : {"version", "externalBuffersAllowed", "descriptorsWork"}) {
      Call(name, {});
    }
    Call("lockFile", {Number(scratch_)});
    std::string missing = files.Path("missing");
    Call("exchangeFiles", {Text(&missing), Text(&missing)});
    Call("copyAccessList", {Text(&missing), Number(scratch_)});
  }

  ~Worker() {
    env_.reset();
    close(scratch_);
  }

  // Several times, as far as there are mappings and buffers for it.
  using Action = void (Worker::*)();
  void Do(Action action) {
    for (size_t i = Below(6); i > 0; i--) (this->*action)();
    while (mapped_.size() > kMostMapped) Drop();
  }

  static constexpr size_t kMostMapped = 40;

  static constexpr size_t kActions = 23;
  static Action ActionAt(size_t i) {
    static constexpr std::array<Action, kActions> kAll = {
        &Worker::Map,        &Worker::Map,       &Worker::MakeBuffer,     &Worker::MakeBuffer,
        &Worker::Read,       &Worker::Read,      &Worker::ReadOnPool,     &Worker::Populate,
        &Worker::AskForFile, &Worker::Convert,   &Worker::PopulateRanges, &Worker::Cast,
        &Worker::Copy,       &Worker::CloseFile, &Worker::Detach,         &Worker::Release,
        &Worker::Drop,       &Worker::Turn,      &Worker::ReadRanges,     &Worker::AddProduct,
        &Worker::Survey,     &Worker::Merge,     &Worker::Dequantize,
    };
    return kAll[i];
  }

  // How many mappings the guard found cut short, in the whole process.
  uint32_t Truncations() {
    const auto* counter = static_cast<const uint32_t*>(Call("truncations", {})->data);
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
  }

 private:
  struct Mapped {
    napi_value handle;
    std::vector<napi_value> buffers;
  };

  // A read of a buffer by somebody on the pool who has its address, such as
  // zlib, and holds it.
  struct PoolRead {
    napi_async_work__ work;
    napi_value buffer;
    const uint8_t* bytes;
    size_t length;
    uint64_t sum = 0;

    static void Execute(napi_env, void* data) {
      auto* read = static_cast<PoolRead*>(data);
      for (size_t i = 0; i < read->length; i += kPage / 2) read->sum += read->bytes[i];
    }
    static void Complete(napi_env, napi_status, void* data) {
      const std::unique_ptr<PoolRead> read(static_cast<PoolRead*>(data));
      read->buffer->holders--;
    }
  };

  size_t Below(size_t limit) { return random_() % limit; }

  napi_value Number(size_t number) { return env_->Number(static_cast<double>(number)); }
  napi_value Number(int number) { return env_->Number(number); }
  napi_value Number(Dtype dtype) { return env_->Number(static_cast<double>(dtype)); }
  napi_value Text(std::string* text) {
    return env_->TypedArray(napi_uint8_array, text->data(), text->size());
  }
  napi_value Doubles(std::vector<double>* numbers) {
    return env_->TypedArray(napi_float64_array, numbers->data(), numbers->size());
  }

  napi_value Call(const char* name, const std::vector<napi_value>& arguments) {
    (*calls_)[name]++;
    return env_->Call(name, arguments);
  }

  Mapped* Any() { return mapped_.empty() ? nullptr : &mapped_[Below(mapped_.size())]; }

  // A full slot, or null.
  napi_value AnyBuffer() {
    Mapped* mapped = Any();
    if (mapped == nullptr || mapped->buffers.empty()) return nullptr;
    napi_value buffer = mapped->buffers[Below(mapped->buffers.size())];
    return buffer->is_detached ? nullptr : buffer;
  }

  // JavaScript cannot reach the mapping and its buffers any more.
  void Forget(Mapped* mapped) {
    mapped->handle->holders--;
    for (napi_value buffer : mapped->buffers) buffer->holders--;
    std::swap(*mapped, mapped_.back());
    mapped_.pop_back();
  }

  void Map() {
    const size_t file = Below(Files::kCount);
    // Without a guard only what nobody cuts short.
    napi_value guard = env_->Boolean(!Files::Stays(file) || Below(2) == 0);
    napi_value handle = Call("mapFile", {Number(files_.descriptor(file)), Number(kLength), guard});
    if (handle->type != napi_object) abort();
    if (Below(4) == 0) Call("adviseRandom", {handle});
    handle->holders++;
    mapped_.push_back({handle, {}});
  }

  void MakeBuffer() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    const size_t offset = Below(2) == 0 ? 0 : Below(kLength);
    const size_t length = 1 + Below(kLength - offset);
    napi_value buffer = Call("tensorBuffer", {mapped->handle, Number(offset), Number(length)});
    // Its handle has ended.
    if (!buffer->is_buffer) return;
    buffer->holders++;
    mapped->buffers.push_back(buffer);
  }

  void Read() {
    napi_value buffer = AnyBuffer();
    if (buffer == nullptr) return;
    auto* bytes = static_cast<volatile uint8_t*>(buffer->data);
    for (size_t i = 0; i < buffer->length; i += kPage) sum_ += bytes[i];
  }

  void ReadOnPool() {
    napi_value buffer = AnyBuffer();
    if (buffer == nullptr) return;
    auto* read = new PoolRead{{env_.get(), PoolRead::Execute, PoolRead::Complete, nullptr},
                              buffer,
                              static_cast<const uint8_t*>(buffer->data),
                              buffer->length};
    read->work.data = read;
    buffer->holders++;
    env_->Queue(&read->work);
  }

  void Populate() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    const size_t offset = Below(kLength);
    const size_t length = 1 + Below(kLength - offset);
    Call("populate", {mapped->handle, Number(offset), Number(length)});
    Call("residentBytes", {mapped->handle, Number(offset), Number(length)});
    if (Below(8) == 0) AskForHugePages();
  }

  // For separate memory, as a stream has it: of a few huge pages, or too
  // short for one.
  void AskForHugePages() {
    const size_t length = 1 + Below(6 << 20);
    const std::unique_ptr<uint8_t[]> memory(new uint8_t[length]);
    Call("hugePages", {env_->TypedArray(napi_uint8_array, memory.get(), length)});
    memory[length - 1] = 1;
  }

  void PopulateRanges() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    std::vector<double> ranges;
    for (size_t i = 1 + Below(20); i > 0; i--) {
      ranges.insert(ranges.end(), {static_cast<double>(Below(kLength - kPage)), kPage});
    }
    Call("populateRanges", {mapped->handle, Doubles(&ranges)});
  }

  void ReadRanges() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    for (const char* name : {"readRanges", "readCachedRanges", "readRangesAsync"}) {
      std::vector<double> ranges;
      for (size_t i = 0; i < 20; i++) {
        ranges.insert(ranges.end(), {static_cast<double>(Below(kLength - 100)), 100});
      }
      napi_value target = env_->TypedArray(napi_uint8_array, Output(), 20 * 100);
      Call(name, {mapped->handle, Doubles(&ranges), target});
    }
  }

  void AskForFile() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    std::vector<double> state(4);
    std::array<uint8_t, 100> bytes;
    Call("readFileState", {mapped->handle, Doubles(&state)});
    Call("readBytes", {mapped->handle, Number(Below(kLength)),
                       env_->TypedArray(napi_uint8_array, bytes.data(), bytes.size())});
    napi_value duplicate = Call("duplicateDescriptor", {mapped->handle});
    if (duplicate->type != napi_number || duplicate->number < 0) return;
    // Others are left to the end of the environment.
    if (Below(8) != 0) Call("closeDescriptor", {env_->Number(duplicate->number)});
  }

  static constexpr size_t kElements = 1000;

  // Two bytes for each of them, in the memory of a buffer; null without one.
  napi_value Elements() {
    napi_value buffer = AnyBuffer();
    if (buffer == nullptr || buffer->length < 2 * kElements) return nullptr;
    return env_->TypedArray(napi_uint8_array, buffer->data, 2 * kElements, buffer);
  }

  // Four bytes for each of them, in memory that lives as long as this.
  float* Output() {
    outputs_.push_back(std::make_unique<std::array<float, kElements>>());
    return outputs_.back()->data();
  }

  void Convert() {
    for (const char* name : {"convert", "convertAsync"}) {
      napi_value elements = Elements();
      if (elements == nullptr) continue;
      napi_value output = env_->TypedArray(napi_float32_array, Output(), kElements);
      Call(name, {Number(Dtype::kBf16), elements, output, Number(0)});
    }
  }

  void Dequantize() {
    napi_value elements = Elements();
    if (elements == nullptr) return;
    napi_value output = env_->TypedArray(napi_float32_array, Output(), kElements);
    napi_value scales = env_->TypedArray(napi_float32_array, right_.data(), right_.size());
    // Two rows of five groups each.
    Call("dequantizeRows",
         {Number(Dtype::kBf16), elements, output, scales, Number(kElements / 2), Number(0),
          Number(1), Number(kElements / 10), Number(5), Number(Below(2)), Number(0)});
    // Blocks of Q8_0: 32 values in 34 bytes.
    constexpr size_t kBlocks = kElements / 32;
    napi_value blocks = env_->TypedArray(napi_uint8_array, elements->data, kBlocks * 34, elements);
    napi_value values = env_->TypedArray(napi_float32_array, Output(), kBlocks * 32);
    Call("decodeBlocks", {Number(static_cast<size_t>(BlockType::kQ8_0)), blocks, values,
                          Number(Below(2)), Number(0)});
  }

  void Cast() {
    for (const char* name : {"cast", "castAsync"}) {
      napi_value elements = Elements();
      if (elements == nullptr) continue;
      napi_value output = env_->TypedArray(napi_uint8_array, Output(), 2 * kElements);
      Call(name, {Number(Dtype::kBf16), Number(Dtype::kF16), elements, output, Number(0)});
    }
  }

  void AddProduct() {
    for (const char* name : {"addProduct", "addProductAsync"}) {
      napi_value elements = Elements();
      if (elements == nullptr) continue;
      napi_value output = env_->TypedArray(napi_uint8_array, Output(), 2 * kElements);
      // Two rows of half the elements each.
      napi_value left = env_->TypedArray(napi_float64_array, left_.data(), left_.size());
      napi_value right = env_->TypedArray(napi_float32_array, right_.data(), right_.size());
      Call(name, {Number(Dtype::kBf16), Number(Dtype::kF16), elements, output, left, right,
                  Number(kElements / 2), Number(0)});
    }
  }

  // The elements of a base and of a model.
  napi_value Inputs(napi_value base, napi_value model) { return env_->Array({base, model}); }
  napi_value InputDtypes() {
    return env_->TypedArray(napi_uint8_array, input_dtypes_.data(), input_dtypes_.size());
  }

  void Survey() {
    for (const char* name : {"survey", "surveyAsync"}) {
      napi_value base = Elements();
      napi_value model = Elements();
      if (base == nullptr || model == nullptr) continue;
      sums_.push_back(std::make_unique<std::vector<double>>(16));
      // The sums of magnitudes, of those that are drawn.
      Call(name, {Number(4), InputDtypes(), Number(5), Inputs(base, model), Doubles(&selection_),
                  Doubles(sums_.back().get()), Number(0)});
    }
  }

  void Merge() {
    for (const char* name : {"mergeElements", "mergeElementsAsync"}) {
      napi_value base = Elements();
      napi_value model = Elements();
      if (base == nullptr || model == nullptr) continue;
      napi_value output = env_->TypedArray(napi_uint8_array, Output(), 2 * kElements);
      Call(name, {Number(Dtype::kF16), InputDtypes(), Number(5), Inputs(base, model),
                  Doubles(&rules_), output, Number(0)});
    }
  }

  void Copy() {
    const int source = files_.descriptor(Below(Files::kCount));
    Call("allocateAsync", {Number(scratch_), Number(kLength)});
    Call("copyFileRangeAsync",
         {Number(source), Number(Below(kLength)), Number(scratch_), Number(0), Number(kPage)});
    std::vector<double> ranges;
    for (size_t i = 1 + Below(20); i > 0; i--) {
      ranges.insert(ranges.end(),
                    {static_cast<double>(source), static_cast<double>(Below(kLength)), 1000});
    }
    Call("gatherRangesAsync", {Doubles(&ranges), Number(scratch_), Number(Below(kLength))});
  }

  void CloseFile() {
    Mapped* mapped = Any();
    if (mapped != nullptr) Call("closeFile", {mapped->handle});
  }

  // With all buffers, or with some of them: the others read zeros from now on.
  void Detach() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    std::vector<napi_value> buffers = mapped->buffers;
    if (Below(2) == 0) buffers.resize(Below(buffers.size() + 1));
    Call("detach", {mapped->handle, env_->Array(buffers), Number(0)});
    if (Below(2) == 0) Forget(mapped);
  }

  void Release() {
    Mapped* mapped = Any();
    if (mapped == nullptr) return;
    Call("release", {mapped->handle});
    Forget(mapped);
  }

  void Drop() {
    Mapped* mapped = Any();
    if (mapped != nullptr) Forget(mapped);
  }

  void Turn() {
    env_->Turn();
    if (Below(5) == 0) env_->Collect();
    if (Below(50) == 0) Call("releaseDropped", {});
  }

  const Files& files_;
  Random random_;
  Calls* const calls_;
  const int scratch_;
  std::unique_ptr<napi_env__> env_;
  std::vector<Mapped> mapped_;
  std::vector<std::unique_ptr<std::array<float, kElements>>> outputs_;
  // The factors of two rows; rows end at a whole group of lanes.
  std::array<double, 2> left_ = {1, 2};
  std::array<float, kElements / 2 + 4> right_ = {};
  std::array<uint8_t, 2> input_dtypes_ = {static_cast<uint8_t>(Dtype::kBf16),
                                          static_cast<uint8_t>(Dtype::kBf16)};
  // Half of the elements, by chance; and the vote of one model with it.
  std::vector<double> selection_ = {2, 1, 2, 2147483648.0};
  std::vector<double> rules_ = {2, 1, 1, 0.5, 0.5, 2, 1, 2, 2147483648.0};
  std::vector<std::unique_ptr<std::vector<double>>> sums_;
  uint64_t sum_ = 0;
};

#endif  // SAFETENSORS_MMAP_TEST_WORKER_H_
