// Implements range_reads_binding.h.
#include "range_reads_binding.h"

#include "arguments.h"
#include "call.h"
#include "exports.h"
#include "file_descriptor.h"
#include "kept.h"
#include "range_list.h"
#include "range_reads.h"

namespace {

// The arguments of both calls: mapping, ranges, target. The target is as long as all ranges
// together.
struct RangesAndTarget {
  MappingRef mapping;
  RangeList ranges;
  uint8_t* target;

  Failure Read(const Napi::CallbackInfo& info) {
    Mapping* read;
    if (const Failure failure = ReadMapping(info, &read)) return failure;
    if (!ranges.Read(info[1], read->length())) return "ranges";
    size_t length;
    if (!ReadItems(info[2], &target, &length)) return "target";
    uint64_t rest = length;
    for (const Range& range : ranges) {
      if (range.length > rest) return "target";
      rest -= range.length;
    }
    if (rest > 0) return "target";
    mapping = MappingRef(read);
    return {};
  }

  int64_t Run(int fd) const { return ReadRanges(*mapping.get(), fd, ranges, target); }
};

// readRanges(mapping, ranges, target): 0.
struct ReadRangesCall {
  RangesAndTarget arguments;

  Failure Read(const Napi::CallbackInfo& info) { return arguments.Read(info); }

  int64_t Run() const { return arguments.Run(arguments.mapping->fd()); }
};

// readCachedRanges(mapping, ranges, target): 1 if all were read, else 0.
struct ReadCachedRangesCall {
  RangesAndTarget arguments;

  Failure Read(const Napi::CallbackInfo& info) { return arguments.Read(info); }

  int64_t Run() const {
    return ReadCachedRanges(arguments.mapping->fd(), arguments.ranges, arguments.target);
  }
};

// readRangesAsync(mapping, ranges, target): Promise<0>. No other code may reach the target's
// memory. The descriptor is a duplicate: the mapping's may be closed meanwhile, and its number
// given to another file. Without one to be had, the ranges are copied from the mapping.
struct ReadRangesPoolCall {
  static constexpr char kName[] = "safetensors-mmap.readRanges";

  RangesAndTarget arguments;
  FileDescriptor descriptor;
  Kept kept_target;

  Failure Read(const Napi::CallbackInfo& info) {
    if (const Failure failure = arguments.Read(info)) return failure;
    const int fd = arguments.mapping->fd();
    if (fd != -1) FileDescriptor::Duplicate(fd, &descriptor);
    return kept_target.Keep(info.Env(), info[2]) ? Failure() : Failure(-ENOMEM);
  }

  int64_t Run() const { return arguments.Run(descriptor.get()); }
};

}  // namespace

void ExportRangeReads(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<ReadRangesCall>>("readRanges"),
             Export<RunHere<ReadCachedRangesCall>>("readCachedRanges"),
             Export<RunOnPool<ReadRangesPoolCall>>("readRangesAsync"),
         });
}
