/*
 * The floor that the other rows are measured against: maps a safetensors file read-only and runs
 * the loop over its data, with nothing in between. Prints the line that every reader prints.
 * Usage: plain_mapping FILE
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "touch.h"

typedef struct {
  uint64_t anonymous;
  uint64_t file_backed;
} Memory;

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Zeros where there is no /proc. */
static Memory ReadMemory(void) {
  Memory memory = {0, 0};
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return memory;
  while (fgets(line, sizeof line, status) != NULL) {
    sscanf(line, "RssAnon: %" SCNu64, &memory.anonymous);
    sscanf(line, "RssFile: %" SCNu64, &memory.file_backed);
  }
  fclose(status);
  memory.anonymous *= 1024;
  memory.file_backed *= 1024;
  return memory;
}

static int Fail(const char* path) {
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: plain_mapping FILE\n");
    return 1;
  }
  Memory before = ReadMemory();
  double start = Milliseconds();
  int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (fd < 0 || fstat(fd, &file) != 0) return Fail(argv[1]);
  size_t length = (size_t)file.st_size;
  const unsigned char* map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return Fail(argv[1]);
  double opened = Milliseconds();
  uint64_t header_length;
  memcpy(&header_length, map, sizeof header_length);
  const unsigned char* data = map + 8 + header_length;
  volatile unsigned char first_byte = data[0];
  (void)first_byte;
  double first = Milliseconds();
  size_t bytes = length - 8 - header_length;
  uint64_t sum = touch_words(data, bytes);
  double end = Milliseconds();
  Memory after = ReadMemory();
  printf(
      "{\"open\":%.4f,\"firstTensor\":%.4f,\"everyByte\":%.4f,\"bytes\":%zu,"
      "\"checksum\":\"%016" PRIx64
      "\","
      "\"before\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64
      "},"
      "\"after\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64 "}}\n",
      opened - start, first - start, end - start, bytes, sum, before.anonymous, before.file_backed,
      after.anonymous, after.file_backed);
  return 0;
}
