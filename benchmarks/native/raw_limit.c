/*
 * The limits that the readers are measured against, with nothing between the file and the loop.
 * Prints the line that every reader prints. Usage:
 *   raw_limit METHOD FILE BEGIN LENGTH [hold]
 * reads LENGTH bytes from BEGIN and sums them: over a plain mapping (mapping), over a copy of the
 * mapping (memcpy), or over memory that the bytes were read into, through the page cache (read) or
 * past it (direct). With "hold" it stays until its standard input ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "touch.h"

/* What O_DIRECT wants positions, lengths and addresses to be multiples of. */
#define SECTOR 4096u
/* Bytes per call of read: enough that the calls cost nothing. */
#define BLOCK (8u << 20)

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

static unsigned char* NewMemory(size_t length) {
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Reads whole blocks until the end is in memory; NULL when the system refuses. */
static unsigned char* ReadRange(int fd, size_t begin, size_t length) {
  size_t first = begin / SECTOR * SECTOR;
  size_t total = begin + length - first;
  unsigned char* memory = NewMemory((total + BLOCK) / BLOCK * BLOCK);
  if (memory == NULL) return NULL;
  for (size_t done = 0; done < total;) {
    size_t wanted = total - done < BLOCK ? (total - done + SECTOR - 1) / SECTOR * SECTOR : BLOCK;
    ssize_t count = pread(fd, memory + done, wanted, (off_t)(first + done));
    if (count <= 0) return NULL;
    done += (size_t)count;
  }
  return memory + (begin - first);
}

static unsigned char* MapRange(int fd, size_t begin, size_t length, int copy) {
  unsigned char* map = mmap(NULL, begin + length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return NULL;
  if (!copy) return map + begin;
  unsigned char* memory = NewMemory(length);
  return memory == NULL ? NULL : memcpy(memory, map + begin, length);
}

static void PrintMemory(const char* name, Memory memory) {
  printf(",\"%s\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64 ",\"proportional\":%" PRIu64
         "}",
         name, memory.anonymous, memory.file_backed, memory.proportional);
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: raw_limit METHOD FILE BEGIN LENGTH [hold]\n");
    return 1;
  }
  const char* method = argv[1];
  const char* path = argv[2];
  size_t begin = strtoull(argv[3], NULL, 10);
  size_t length = strtoull(argv[4], NULL, 10);
  int direct = strcmp(method, "direct") == 0 ? O_DIRECT : 0;
  Memory before = ReadMemory();
  double start = Milliseconds();
  int fd = open(path, O_RDONLY | O_CLOEXEC | direct);
  if (fd < 0) return Fail(path);
  double opened = Milliseconds();
  int copy = strcmp(method, "memcpy") == 0;
  unsigned char* data = copy || strcmp(method, "mapping") == 0 ? MapRange(fd, begin, length, copy)
                                                               : ReadRange(fd, begin, length);
  if (data == NULL) return Fail(path);
  double handed_out = Milliseconds();
  uint64_t sum = touch_words(data, length);
  double end = Milliseconds();
  Memory after = ReadMemory();
  printf("{\"open\":%.4f,\"firstTensor\":%.4f,\"handedOut\":%.4f,\"everyByte\":%.4f", opened - start,
         handed_out - start, handed_out - start, end - start);
  printf(",\"bytes\":%zu,\"checksum\":\"%016" PRIx64 "\"", length, sum);
  PrintMemory("before", before);
  PrintMemory("after", after);
  printf("}\n");
  fflush(stdout);
  if (argc > 5) {
    while (getchar() != EOF) {
    }
  }
  return 0;
}
