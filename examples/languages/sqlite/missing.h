// What SQLite's file system needs from POSIX and WASI lacks: locks, users and modes. There is one program,
// one user.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
static inline int fchmod(int file, mode_t mode) { return 0; }
static inline int fchown(int file, uid_t user, gid_t group) { return 0; }
static inline uid_t geteuid(void) { return 0; }
static inline uid_t getuid(void) { return 0; }
static inline mode_t umask(mode_t mode) { return 0; }
static inline int chmod(const char* path, mode_t mode) { return 0; }
