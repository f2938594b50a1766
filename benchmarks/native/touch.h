/* The loop that every row of the benchmarks shares: it reads each byte of a range once. */
#ifndef TOUCH_H
#define TOUCH_H

#include <stddef.h>
#include <stdint.h>

/*
 * Sum modulo 2^64 of the 64-bit words of a range; the last bytes count as a word filled up with
 * zeros. `data` may have any alignment and must stay readable during the call.
 */
uint64_t touch_words(const void* data, size_t length);

#endif
