// Locks of files and folders, an exchange of two names, access control lists.
#ifndef SAFETENSORS_MMAP_REPLACEMENT_H_
#define SAFETENSORS_MMAP_REPLACEMENT_H_

// Replaces files next to other processes. All functions may be called on any
// thread. They return 0, unless they say more, or a negative errno.

// Locks a file or a folder for this descriptor, without waiting: -EAGAIN when another descriptor
// has the lock, in this process or another. The lock is advisory: it stops nobody but those who ask
// for it. It ends when the descriptor is closed, and so when the process dies. ENOLCK, EBADF,
// ENOTSUP and others where the file system has no locks.
int Lock(int fd);

// Exchanges two paths in one step: each then has what the other had. Both must exist. ENOTSUP,
// EINVAL, ENOSYS and others where the system or the file system cannot.
int Exchange(const char* path, const char* other);

// Gives the file of a descriptor the access control list of the file at `path`, or takes it away
// when that has none. Returns 1 when there is a list, 0 when there is none. ENOTSUP where the
// system or the file system has no such lists.
int CopyAccessList(const char* path, int fd);

#endif  // SAFETENSORS_MMAP_REPLACEMENT_H_
