// Ranges of detached mappings, kept from reuse.
#ifndef SAFETENSORS_MMAP_QUARANTINE_H_
#define SAFETENSORS_MMAP_QUARANTINE_H_

#include "mapping.h"

// Keeps a detached mapping's addresses from reuse while somebody may still read there: buffers
// moved with `transfer()`, work on the thread pool that holds the bare pointer. Later mappings push
// it out, first in, first out; the addresses are then free as soon as no buffer holds them either.
//
// Process-wide, any thread. The rest goes with the process at exit.
void Quarantine(MappingRef mapping);

// Pushes out the oldest mapping. False if the quarantine is empty.
bool DropOldestOfQuarantine();

#endif  // SAFETENSORS_MMAP_QUARANTINE_H_
