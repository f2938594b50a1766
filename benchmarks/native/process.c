#define _POSIX_C_SOURCE 200809L
#include "process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void ReadFields(const char* path, Memory* memory) {
  char line[256];
  FILE* file = fopen(path, "r");
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    sscanf(line, "RssAnon: %" SCNu64, &memory->anonymous);
    sscanf(line, "RssFile: %" SCNu64, &memory->file_backed);
    sscanf(line, "Pss: %" SCNu64, &memory->proportional);
  }
  fclose(file);
}

Memory ReadMemory(void) {
  Memory memory = {0, 0, 0};
  ReadFields("/proc/self/status", &memory);
  ReadFields("/proc/self/smaps_rollup", &memory);
  memory.anonymous *= 1024;
  memory.file_backed *= 1024;
  memory.proportional *= 1024;
  return memory;
}

uint64_t ReadPeak(void) {
  char line[256];
  uint64_t peak = 0;
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) sscanf(line, "VmHWM: %" SCNu64, &peak);
  fclose(file);
  return peak * 1024;
}

uint64_t ResetPeak(void) {
  FILE* file = fopen("/proc/self/clear_refs", "w");
  if (file != NULL) {
    fputs("5", file);
    fclose(file);
  }
  return ReadPeak();
}

int Fail(const char* path) {
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return 1;
}
