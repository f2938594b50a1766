#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

uint64_t ReadField(const char* path, const char* field) {
  char line[256];
  uint64_t kilobytes = 0;
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    size_t length = strlen(field);
    if (strncmp(line, field, length) == 0) sscanf(line + length, ": %" SCNu64, &kilobytes);
  }
  fclose(file);
  return kilobytes * 1024;
}

char* NewMemory(size_t length) {
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void WaitForEnd(void) {
  while (getchar() != EOF) {
  }
}

int Fail(const char* path) {
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return 1;
}
