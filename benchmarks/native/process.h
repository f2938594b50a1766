/* What the programs in C share: a clock, the memory of the process, waiting, errors. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* What O_DIRECT wants positions, lengths and addresses to be multiples of. */
#define SECTOR 4096u
/* Bytes per call of read or write: enough that the calls cost nothing. */
#define BLOCK (8u << 20)

/* A steady clock. */
double Milliseconds(void);

/* A field of a file such as /proc/self/status, in bytes; 0 where there is no /proc. */
uint64_t ReadField(const char* path, const char* field);

/* New private memory; NULL when the system refuses. */
char* NewMemory(size_t length);

/* Waits for the end of standard input. */
void WaitForEnd(void);

/* Prints the path with what errno says and returns the exit code of a failure. */
int Fail(const char* path);

#endif
