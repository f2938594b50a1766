/* What the programs in C share: a clock, the memory of the process, one line for an error. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdint.h>

/* Resident memory in bytes; zeros where there is no /proc. */
typedef struct {
  uint64_t anonymous;
  uint64_t file_backed;
  uint64_t proportional;
} Memory;

/* A steady clock. */
double Milliseconds(void);

Memory ReadMemory(void);

/* Prints the path with what errno says and returns the exit code of a failure. */
int Fail(const char* path);

#endif
