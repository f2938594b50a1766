/*
 * The limits of reading, with nothing between the file and the loop. Prints the line of read.mjs, and
 * keeps the memory until standard input ends. Usage:
 *   read_limit METHOD FILE LOOPS INDEX BEGIN LENGTH NAME
 * sums LENGTH bytes from BEGIN: over a plain mapping (mapping), or over memory that they were read
 * into, through the page cache (read) or past it (direct), or past it into one block that is used again
 * (direct-block). LOOPS, INDEX and NAME are not used.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "touch.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

/* Resident memory in bytes. */
typedef struct {
  uint64_t anonymous;
  uint64_t file_backed;
  uint64_t proportional;
} Memory;

static Memory ReadMemory(void) {
  Memory memory = {ReadField("/proc/self/status", "RssAnon"),
                   ReadField("/proc/self/status", "RssFile"),
                   ReadField("/proc/self/smaps_rollup", "Pss")};
  return memory;
}

static void PrintMemory(const char* name, Memory memory) {
  printf(",\"%s\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64 ",\"proportional\":%" PRIu64
         "}",
         name, memory.anonymous, memory.file_backed, memory.proportional);
}

static char* MapRange(int fd, size_t begin, size_t length) {
  char* map = mmap(NULL, begin + length, PROT_READ, MAP_PRIVATE, fd, 0);
  return map == MAP_FAILED ? NULL : map + begin;
}

/* Reads whole sectors until the end is in memory; NULL when the system refuses. */
static char* ReadRange(int fd, size_t begin, size_t length) {
  size_t first = begin / SECTOR * SECTOR;
  size_t total = begin + length - first;
  char* memory = NewMemory((total + BLOCK) / BLOCK * BLOCK);
  if (memory == NULL) return NULL;
  for (size_t done = 0; done < total;) {
    size_t wanted = total - done < BLOCK ? (total - done + SECTOR - 1) / SECTOR * SECTOR : BLOCK;
    ssize_t count = pread(fd, memory + done, wanted, (off_t)(first + done));
    if (count <= 0) return NULL;
    done += (size_t)count;
  }
  return memory + (begin - first);
}

/* Reads whole sectors until the end, each block over the one before; 0 when the system refuses. */
static int SumBlocks(int fd, size_t begin, size_t length, uint64_t* sum) {
  char* block = NewMemory(BLOCK);
  if (block == NULL) return 0;
  size_t end = begin + length;
  for (size_t position = begin / SECTOR * SECTOR; position < end;) {
    ssize_t count = pread(fd, block, BLOCK, (off_t)position);
    if (count <= 0) return 0;
    size_t skipped = begin > position ? begin - position : 0;
    size_t last = end - position < (size_t)count ? end - position : (size_t)count;
    *sum += touch_words(block + skipped, last - skipped);
    position += (size_t)count;
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: read_limit METHOD FILE LOOPS INDEX BEGIN LENGTH NAME\n");
    return 1;
  }
  const char* method = argv[1];
  const char* path = argv[2];
  size_t begin = strtoull(argv[5], NULL, 10);
  size_t length = strtoull(argv[6], NULL, 10);
  int direct = strncmp(method, "direct", 6) == 0 ? O_DIRECT : 0;
  int blocks = strcmp(method, "direct-block") == 0;
  Memory before = ReadMemory();
  double start = Milliseconds();
  int fd = open(path, O_RDONLY | O_CLOEXEC | direct);
  if (fd < 0) return Fail(path);
  double opened = Milliseconds();
  uint64_t sum = 0;
  char* data = NULL;
  if (blocks) {
    if (!SumBlocks(fd, begin, length, &sum)) return Fail(path);
  } else {
    data = strcmp(method, "mapping") == 0 ? MapRange(fd, begin, length)
                                          : ReadRange(fd, begin, length);
    if (data == NULL) return Fail(path);
  }
  double handed_out = Milliseconds();
  if (!blocks) sum = touch_words(data, length);
  double end = Milliseconds();
  Memory after = ReadMemory();
  printf("{\"open\":%.4f,\"firstTensor\":%.4f,\"handedOut\":%.4f,\"everyByte\":%.4f", opened - start,
         handed_out - start, handed_out - start, end - start);
  printf(",\"bytes\":%zu,\"checksum\":\"%016" PRIx64 "\"", length, sum);
  PrintMemory("before", before);
  PrintMemory("after", after);
  printf("}\n");
  fflush(stdout);
  WaitForEnd();
  return 0;
}
