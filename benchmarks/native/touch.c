// Reads every byte of a range: the same loop for every rival.
#include "touch.h"

#include <string.h>

uint64_t touch_words(const void* data, size_t length) {
  const unsigned char* bytes = data;
  size_t words = length / sizeof(uint64_t);
  uint64_t sum = 0;
  for (size_t i = 0; i < words; i++) {
    /* memcpy and not a pointer cast: a tensor may start at any address. */
    uint64_t word;
    memcpy(&word, bytes + i * sizeof word, sizeof word);
    sum += word;
  }
  uint64_t tail = 0;
  memcpy(&tail, bytes + words * sizeof tail, length % sizeof tail);
  return sum + tail;
}
