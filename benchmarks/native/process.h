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

/* Forgets the highest resident memory so far; returns what is resident now, in bytes. */
uint64_t ResetPeak(void);

/* The highest resident memory since then, in bytes. */
uint64_t ReadPeak(void);

/* Prints the path with what errno says and returns the exit code of a failure. */
int Fail(const char* path);

#endif
