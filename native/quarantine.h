#ifndef SAFETENSORS_MMAP_QUARANTINE_H_
#define SAFETENSORS_MMAP_QUARANTINE_H_

#include "mapping.h"

// Takes over the caller's reference on a mapping that was detached while somebody may still read
// there: buffers moved with `transfer()`, work on the thread pool that holds the bare pointer. The
// quarantine drops the reference when the mapping is pushed out by later ones, first in, first out;
// the addresses are then free as soon as no buffer holds them either.
//
// Process-wide, any thread. What is left at exit goes with the process.
void Quarantine(Mapping* mapping);

#endif  // SAFETENSORS_MMAP_QUARANTINE_H_
