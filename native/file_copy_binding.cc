// Implements file_copy_binding.h.
#include "file_copy_binding.h"

#include <array>

#include "arguments.h"
#include "call.h"
#include "exports.h"
#include "file_copy.h"

namespace {

// allocateAsync(fd, byteLength): 0
struct AllocateCall {
  static constexpr char kName[] = "safetensors-mmap.allocate";

  int fd;
  uint64_t length;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadDescriptor(info[0], &fd)) return "fd";
    if (!ReadLength(info[1], &length)) return "byteLength";
    return {};
  }

  int64_t Run() const { return Allocate(fd, length); }
};

// copyFileRangeAsync(sourceFd, sourcePosition, targetFd, targetPosition, byteLength): number
struct CopyFileRangeCall {
  static constexpr char kName[] = "safetensors-mmap.copyFileRange";

  int source;
  uint64_t source_position;
  int target;
  uint64_t target_position;
  uint64_t length;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadDescriptor(info[0], &source)) return "sourceFd";
    if (!ReadSize(info[1], &source_position)) return "sourcePosition";
    if (!ReadDescriptor(info[2], &target)) return "targetFd";
    if (!ReadSize(info[3], &target_position)) return "targetPosition";
    if (!ReadLength(info[4], &length)) return "byteLength";
    return {};
  }

  int64_t Run() const {
    return CopyFileRange(source, source_position, target, target_position, length);
  }
};

// More would make the call's memory large.
constexpr size_t kMaxRanges = 1024;
constexpr uint64_t kMaxGatheredBytes = uint64_t{16} << 20;

// gatherRangesAsync(ranges, targetFd, targetPosition): number. The ranges are a Float64Array with
// three numbers for each: descriptor, position, length.
struct GatherRangesCall {
  static constexpr char kName[] = "safetensors-mmap.gatherRanges";

  std::array<SourceRange, kMaxRanges> ranges;
  size_t count;
  int target;
  uint64_t target_position;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadRanges(info[0])) return "ranges";
    if (!ReadDescriptor(info[1], &target)) return "targetFd";
    if (!ReadSize(info[2], &target_position)) return "targetPosition";
    return {};
  }

  bool ReadRanges(const Napi::Value& value) {
    const double* numbers;
    size_t number_count;
    if (!ReadItems(value, &numbers, &number_count) || number_count % 3 != 0) return false;
    count = number_count / 3;
    if (count == 0 || count > kMaxRanges) return false;
    uint64_t length = 0;
    for (size_t i = 0; i < count; i++, numbers += 3) {
      SourceRange& range = ranges[i];
      if (!ReadDescriptor(numbers[0], &range.fd)) return false;
      if (!ReadSize(numbers[1], &range.position)) return false;
      if (!ReadLength(numbers[2], &range.length)) return false;
      if (range.length > kMaxGatheredBytes - length) return false;
      length += range.length;
    }
    return true;
  }

  int64_t Run() const { return GatherRanges(ranges.data(), count, target, target_position); }
};

}  // namespace

void ExportFileCopy(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunOnPool<AllocateCall>>("allocateAsync"),
             Export<RunOnPool<CopyFileRangeCall>>("copyFileRangeAsync"),
             Export<RunOnPool<GatherRangesCall>>("gatherRangesAsync"),
         });
}
