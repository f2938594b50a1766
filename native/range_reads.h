// Reads many short ranges of a mapped file together.
#ifndef SAFETENSORS_MMAP_RANGE_READS_H_
#define SAFETENSORS_MMAP_RANGE_READS_H_

#include <cstdint>

#include "mapping.h"
#include "range_list.h"

// Writes the ranges into `target`, one after the other: on Linux by reads, since the kernel then
// brings these pages alone from the disk; a fault in the mapping makes it read megabytes around the
// page. Elsewhere from the mapping. Both give the file's bytes, unless somebody wrote into the
// mapping: don't call it then.
//
// `fd` is the mapped file; with -1 all ranges are copied from the mapping. Bytes after the end of
// a file that was cut short are zeros. Returns 0 or a negative errno. Any thread; the caller keeps
// mapping and descriptor.
int ReadRanges(const Mapping& mapping, int fd, const RangeList& ranges, uint8_t* target);

// As above, if all ranges are in the page cache: never waits for the disk. Returns false where one
// is not, or the system cannot tell; the target's content is undefined then.
bool ReadCachedRanges(int fd, const RangeList& ranges, uint8_t* target);

#endif  // SAFETENSORS_MMAP_RANGE_READS_H_
