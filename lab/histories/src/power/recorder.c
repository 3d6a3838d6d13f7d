/*
 * Records what a process does to the files of one folder, and what it prints, in the order in which it happens. It is
 * loaded before the C library (LD_PRELOAD). Several processes write one log: an operation and its record are one step
 * under a lock, so the log is the order of all of them.
 *
 * Nothing is synced: a sync is only recorded. What a disk would have after a power cut is computed from the log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A record: this, then the name, then the data. */
struct record {
    uint8_t kind;
    uint8_t unused;
    uint16_t name_length;
    uint32_t data_length;
    uint64_t file; /* the inode */
    uint64_t offset;
};

/* One thread of one process at a time. */
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;
static char folder[PATH_MAX];
static size_t folder_length;
static ino_t folder_inode;

/* The inode that was opened as this descriptor; 0 for files elsewhere. */
static ino_t opened[4096];

static void give_up(const char *what) {
    fprintf(stderr, "recorder: %s: %s\n", what, strerror(errno));
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("SCRATCHBOOK_RECORDED_FOLDER"), *log = getenv("SCRATCHBOOK_RECORD");
    struct stat found;
    if (where == NULL || log == NULL || strlen(where) >= sizeof folder) return;
    folder_length = strlen(strcpy(folder, where));
    if (stat(folder, &found) != 0) give_up(folder);
    folder_inode = found.st_ino;
    log_file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_file < 0) give_up(log);
}

static void lock(void) {
    pthread_mutex_lock(&threads);
    while (flock(log_file, LOCK_EX) != 0)
        if (errno != EINTR) give_up("flock");
}

static void unlock(void) {
    int error = errno;
    if (flock(log_file, LOCK_UN) != 0) give_up("flock");
    pthread_mutex_unlock(&threads);
    errno = error;
}

static void record(char kind, const char *name, ino_t file, off_t offset, const void *data, size_t length) {
    int error = errno;
    size_t name_length = name == NULL ? 0 : strlen(name);
    struct record head = {(uint8_t)kind, 0, (uint16_t)name_length, (uint32_t)length, file, (uint64_t)offset};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)name, name_length}, {(void *)data, length}};
    if (syscall(SYS_writev, log_file, parts, 3) != (long)(sizeof head + name_length + length)) give_up("the log");
    errno = error;
}

/* The name of a file in the folder; NULL for files elsewhere. */
static const char *name_of(const char *path) {
    if (log_file < 0 || strncmp(path, folder, folder_length) != 0 || path[folder_length] != '/') return NULL;
    path += folder_length + 1;
    return *path == 0 || strchr(path, '/') != NULL ? NULL : path;
}

/* The inode of an open file of the folder, or the folder's; 0 for files elsewhere. */
static ino_t inode_of(int fd) {
    struct stat found;
    if (log_file < 0 || fd < 0 || fd >= 4096 || opened[fd] == 0) return 0;
    /* The descriptor may have been closed, and now be that of another file. */
    if (fstat(fd, &found) != 0 || found.st_ino != opened[fd]) opened[fd] = 0;
    return opened[fd];
}

static int open_file(int at, const char *path, int flags, mode_t mode) {
    const char *name = name_of(path);
    struct stat found;
    int is_new, fd;
    if (name == NULL) {
        fd = (int)syscall(SYS_openat, at, path, flags, mode);
        if (fd >= 0 && log_file >= 0 && strcmp(path, folder) == 0) {
            if (fd >= 4096) give_up("a descriptor over 4095");
            opened[fd] = folder_inode;
        }
        return fd;
    }
    lock();
    is_new = (flags & O_CREAT) && lstat(path, &found) != 0;
    fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0) {
        if (fd >= 4096 || fstat(fd, &found) != 0) give_up(path);
        opened[fd] = found.st_ino;
        if (is_new) record('C', name, found.st_ino, 0, NULL, 0);
        else if (flags & O_TRUNC) record('T', NULL, found.st_ino, 0, NULL, 0);
    }
    unlock();
    return fd;
}

static mode_t mode_in(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                           \
    int name(const char *path, int flags, ...) {             \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = mode_in(flags, rest);                  \
        va_end(rest);                                        \
        return open_file(AT_FDCWD, path, flags, mode);       \
    }
#define OPENAT(name)                                         \
    int name(int at, const char *path, int flags, ...) {     \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = mode_in(flags, rest);                  \
        va_end(rest);                                        \
        return open_file(at, path, flags, mode);             \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t length) {
    ino_t file = inode_of(fd);
    ssize_t done;
    int is_printed = log_file >= 0 && fd == STDOUT_FILENO;
    if (file == 0 && !is_printed) return syscall(SYS_write, fd, data, length);
    lock();
    done = syscall(SYS_write, fd, data, length);
    if (done > 0 && is_printed) record('A', NULL, 0, 0, data, (size_t)done);
    else if (done > 0) record('W', NULL, file, syscall(SYS_lseek, fd, 0, SEEK_CUR) - done, data, (size_t)done);
    unlock();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    ino_t file = inode_of(fd);
    ssize_t done;
    if (file == 0) return syscall(SYS_pwrite64, fd, data, length, offset);
    lock();
    done = syscall(SYS_pwrite64, fd, data, length, offset);
    if (done > 0) record('W', NULL, file, offset, data, (size_t)done);
    unlock();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    return pwrite(fd, data, length, offset);
}

int ftruncate(int fd, off_t length) {
    ino_t file = inode_of(fd);
    int done;
    if (file == 0) return (int)syscall(SYS_ftruncate, fd, length);
    lock();
    done = (int)syscall(SYS_ftruncate, fd, length);
    if (done == 0) record('T', NULL, file, length, NULL, 0);
    unlock();
    return done;
}

int ftruncate64(int fd, off64_t length) {
    return ftruncate(fd, length);
}

static int sync_file(int fd, long call) {
    ino_t file = inode_of(fd);
    if (file == 0) return (int)syscall(call, fd);
    lock();
    record(file == folder_inode ? 'D' : 'S', NULL, file, 0, NULL, 0);
    unlock();
    return 0;
}

int fsync(int fd) {
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd) {
    return sync_file(fd, SYS_fdatasync);
}

int unlink(const char *path) {
    const char *name = name_of(path);
    int done;
    if (name == NULL) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    lock();
    done = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (done == 0) record('U', name, 0, 0, NULL, 0);
    unlock();
    return done;
}

int rename(const char *from, const char *to) {
    const char *old = name_of(from), *new = name_of(to);
    int done;
    if (old == NULL && new == NULL) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (old == NULL || new == NULL) give_up("a file is moved into the folder or out of it");
    lock();
    done = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (done == 0) record('R', old, 0, 0, new, strlen(new));
    unlock();
    return done;
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    const char *new = name_of(to);
    struct stat found;
    int done;
    if (new == NULL) return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
    lock();
    done = (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
    if (done == 0) {
        if (stat(to, &found) != 0) give_up(to);
        record('C', new, found.st_ino, 0, NULL, 0);
    }
    unlock();
    return done;
}

int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
