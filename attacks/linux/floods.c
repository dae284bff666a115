// Requests more of every resource until it is refused, or the act is over. The sandbox's limits must hold,
// and the rest of the machine must not notice.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
#define FOR_A_WHILE(s) for (const double until = seconds() + (s); seconds() < until;)

static int forks(long kind) {
  FOR_A_WHILE(2) {
    const pid_t process = kind == 1 ? vfork() : fork();
    if (process == 0) {
      if (kind == 1) _exit(0);
      if (kind == 2) pause();
      setsid();
    }
  }
  return kHeld;
}

static void* nothing(void* unused) {
  pause();
  return unused;
}
static int threads(long unused) {
  (void)unused;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  pthread_t thread;
  for (int i = 0; i < 20000 && pthread_create(&thread, &small, nothing, NULL) == 0; ++i) {}
  return kHeld;
}

static int memory(long kind) {
  FOR_A_WHILE(4) {
    const size_t bytes = 16 << 20;
    char* const more = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            kind == 1 ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED) break;
    for (size_t at = 0; at < bytes; at += 4096) more[at] = 1;
    if (kind == 2) fork();
  }
  return kHeld;
}
static int areas(long unused) {
  (void)unused;
  char* const all = mmap(NULL, 1ul << 32, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t at = 0; at < 1ul << 30; at += 8192)
    if (mprotect(all + at, 4096, PROT_READ) != 0) break;
  return kHeld;
}
static int address_space(long unused) {
  (void)unused;
  for (size_t size = 1ul << 46; size > 4096; size /= 2)
    while (mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
           MAP_FAILED) {}
  return kHeld;
}
static int memory_files(long unused) {
  (void)unused;
  char bytes[65536];
  memset(bytes, 1, sizeof bytes);
  FOR_A_WHILE(3) {
    const int file = (int)call(SYS_memfd_create, "f", 0);
    if (file < 0) break;
    for (int i = 0; i < 512; ++i)
      if (write(file, bytes, sizeof bytes) < 0) return kHeld;
  }
  return kHeld;
}
static int shared_directory(long unused) {
  (void)unused;
  char bytes[65536];
  memset(bytes, 1, sizeof bytes);
  for (int i = 0; i < 1000; ++i) {
    char path[40];
    snprintf(path, sizeof path, "/dev/shm/f%d", i);
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    for (int k = 0; k < 256; ++k)
      if (write(file, bytes, sizeof bytes) < 0) return kHeld;
    close(file);
  }
  return kHeld;
}

static int descriptors(long kind) {
  for (int i = 0; i < 200000; ++i) {
    int ends[2], got = -1;
    switch (kind) {
      case 0: got = open("/dev/null", O_RDONLY); break;
      case 1: got = pipe(ends); break;
      case 2: got = socketpair(AF_UNIX, SOCK_STREAM, 0, ends); break;
      case 3: got = epoll_create1(0); break;
      case 4: got = eventfd(0, 0); break;
      case 5: got = timerfd_create(CLOCK_MONOTONIC, 0); break;
      case 6: got = inotify_init1(0); break;
      case 7: got = open("/dev/ptmx", O_RDWR); break;
      case 8: got = (int)call(SYS_memfd_create, "x", 0); break;
      case 9: got = open("/tmp", O_TMPFILE | O_RDWR, 0600); break;
      case 10: got = (int)call(SYS_pidfd_open, getpid(), 0); break;
      case 11: got = (int)call(SYS_signalfd4, -1, &(long){1}, 8, 0); break;
      default: got = socket(AF_INET, SOCK_STREAM, 0); break;
    }
    if (got < 0) break;
  }
  return kHeld;
}

static int full_pipes(long unused) {
  (void)unused;
  static char bytes[1 << 16];
  for (int i = 0; i < 400; ++i) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) break;
    fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
  }
  return kHeld;
}
static int full_sockets(long kind) {
  static char bytes[1 << 16];
  for (int i = 0; i < 400; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, (int)kind | SOCK_NONBLOCK, 0, ends) != 0) break;
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
  }
  return kHeld;
}
// Sockets that are sent into themselves: nothing else refers to them any more, and they refer to each other.
static int buried_sockets(long unused) {
  (void)unused;
  FOR_A_WHILE(3) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) break;
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr* const head = (struct cmsghdr*)control;
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof ends), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), ends, sizeof ends);
    if (sendmsg(ends[0], &message, MSG_DONTWAIT) < 0) break;
    close(ends[0]);
    close(ends[1]);
  }
  return kHeld;
}
static int connections(long unused) {
  (void)unused;
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/listener"};
  bind(listener, (struct sockaddr*)&name, sizeof name);
  listen(listener, 1 << 30);
  for (int i = 0; i < 100000; ++i) {
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (client < 0 || connect(client, (struct sockaddr*)&name, sizeof name) < 0) break;
    close(client);
  }
  return kHeld;
}
static int nested_epolls(long is_loop) {
  int before = epoll_create1(0);
  const int first = before;
  struct epoll_event event = {EPOLLIN | EPOLLET, {0}};
  for (int i = 0; i < 1000; ++i) {
    const int next = epoll_create1(0);
    if (next < 0 || epoll_ctl(next, EPOLL_CTL_ADD, before, &event) != 0) break;
    before = next;
  }
  if (is_loop) epoll_ctl(first, EPOLL_CTL_ADD, before, &event);
  epoll_wait(before, &event, 1, 10);
  return kHeld;
}
static int watches(long unused) {
  (void)unused;
  const int inotify = inotify_init1(IN_NONBLOCK);
  for (int i = 0; i < 100000; ++i) {
    char path[40];
    snprintf(path, sizeof path, "/tmp/w%d", i);
    if (mkdir(path, 0700) != 0 || inotify_add_watch(inotify, path, IN_ALL_EVENTS) < 0) break;
    rmdir(path);
  }
  for (int i = 0; i < 200000; ++i)
    if (utimes("/tmp", NULL) != 0) break;
  return kHeld;
}
static int signals(long unused) {
  (void)unused;
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  for (int i = 0; i < 200000; ++i)
    if (sigqueue(getpid(), SIGRTMIN + i % 30, (union sigval){.sival_int = i}) != 0) break;
  return kHeld;
}
static int timers(long unused) {
  (void)unused;
  for (int i = 0; i < 20000; ++i) {
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    const struct itimerspec soon = {{0, 1}, {0, 1}};
    if (timer < 0 || timerfd_settime(timer, 0, &soon, NULL) != 0) break;
  }
  usleep(300000);
  return kHeld;
}

static int deep_directories(long unused) {
  (void)unused;
  char name[200];
  memset(name, 'd', sizeof name);
  name[sizeof name - 1] = 0;
  for (int i = 0; i < 20000; ++i)
    if (mkdir(name, 0700) != 0 || chdir(name) != 0) break;
  char path[100000];
  getcwd(path, sizeof path);
  rename(name, "/tmp/deep");
  return kHeld;
}
static int many_files(long kind) {
  FOR_A_WHILE(4) {
    static long number;
    char path[60];
    snprintf(path, sizeof path, "/tmp/many%ld", ++number);
    const int failed = kind == 0   ? mknod(path, S_IFREG | 0600, 0)
                       : kind == 1 ? symlink("/a/rather/long/target/that/takes/some/room/in/the/tree", path)
                       : kind == 2 ? link("/etc/passwd", path)
                       : kind == 3 ? mkfifo(path, 0600)
                                   : mkdir(path, 0700);
    if (failed) break;
  }
  return kHeld;
}
static int attributes(long unused) {
  (void)unused;
  static char value[65536];
  const int file = open("/tmp/attributes", O_CREAT | O_RDWR, 0600);
  for (int i = 0; i < 100000; ++i) {
    char name[40];
    snprintf(name, sizeof name, "user.n%d", i);
    if (fsetxattr(file, name, value, sizeof value, 0) != 0) break;
  }
  return kHeld;
}
static int large_files(long kind) {
  const int file = open("/tmp/large", O_CREAT | O_RDWR, 0600);
  static char bytes[1 << 20];
  memset(bytes, 1, sizeof bytes);
  ftruncate(file, 1l << 45);
  if (kind == 0)
    while (write(file, bytes, sizeof bytes) > 0) {}
  if (kind == 1)
    for (long at = 0; at < 1l << 44; at += 1l << 30)
      if (pwrite(file, "x", 1, at) != 1) break;
  if (kind == 2) fallocate(file, 0, 0, 1l << 44);
  if (kind == 3) {
    char* const mapped = mmap(NULL, 1l << 40, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
      FOR_A_WHILE(3) for (int i = 0; i < 4096; ++i) mapped[(rand() & 0xfffffffl) * 4096] = 1;
  }
  return kHeld;
}
static int locks(long unused) {
  (void)unused;
  const int file = open("/tmp/locks", O_CREAT | O_RDWR, 0600);
  for (long i = 0; i < 300000; ++i) {
    const struct flock lock = {.l_type = F_WRLCK, .l_start = i * 2, .l_len = 1};
    if (fcntl(file, F_SETLK, &lock) != 0) break;
  }
  return kHeld;
}
static int long_links(long unused) {
  (void)unused;
  for (int i = 0; i < 100; ++i) {
    char from[40], to[40];
    snprintf(from, sizeof from, "/tmp/loop%d", i);
    snprintf(to, sizeof to, "/tmp/loop%d/x", (i + 1) % 100);
    if (symlink(to, from) != 0) break;
  }
  struct stat status;
  stat("/tmp/loop0", &status);
  return kHeld;
}
static int output(long unused) {
  (void)unused;
  static char bytes[1 << 16];
  memset(bytes, 'x', sizeof bytes);
  const int null = open("/dev/null", O_WRONLY);
  FOR_A_WHILE(2) if (write(null, bytes, sizeof bytes) < 0) break;
  return kHeld;
}
static int stops(long unused) {
  (void)unused;
  const pid_t process = fork();
  if (process == 0)
    for (;;) call(SYS_getppid);
  FOR_A_WHILE(2) {
    kill(process, SIGSTOP);
    kill(process, SIGCONT);
  }
  return kHeld;
}
static int futex_waiters(long unused) {
  (void)unused;
  static int word;
  for (int i = 0; i < 450; ++i)
    if (fork() == 0) {
      call(SYS_futex, &word, 0, 0, 0);
      _exit(0);
    }
  FOR_A_WHILE(1) call(SYS_futex, &word, 3, 1, 1000, &word + 1, 0);
  return kHeld;
}
static int terminals(long unused) {
  (void)unused;
  const int master = open("/dev/ptmx", O_RDWR | O_NONBLOCK);
  static char bytes[4096];
  memset(bytes, '\n', sizeof bytes);
  FOR_A_WHILE(1) if (write(master, bytes, sizeof bytes) < 0) usleep(1000);
  return kHeld;
}
static int requests(long unused) {
  (void)unused;
  FOR_A_WHILE(2) for (int i = 0; i < 1000; ++i) call(SYS_getppid);
  return kHeld;
}
static int zombies(long unused) {
  (void)unused;
  for (int i = 0; i < 3000; ++i) {
    const pid_t process = fork();
    if (process == 0) _exit(0);
    if (process < 0) break;
  }
  return kHeld;
}
static int limits(long unused) {
  (void)unused;
  for (int resource = 0; resource < 16; ++resource) {
    struct rlimit {
      unsigned long soft, hard;
    } none = {~0ul, ~0ul};
    call(SYS_prlimit64, 0, resource, &none, 0);
  }
  return memory(0);
}

#define ROW(name, act, n) {"flood." name, act, n}
const struct Attack kFloods[] = {ROW("fork", forks, 0),
                                 ROW("vfork", forks, 1),
                                 ROW("sleepers", forks, 2),
                                 ROW("threads", threads, 0),
                                 ROW("memory", memory, 0),
                                 ROW("shared_memory", memory, 1),
                                 ROW("memory_and_forks", memory, 2),
                                 ROW("areas", areas, 0),
                                 ROW("address_space", address_space, 0),
                                 ROW("memory_files", memory_files, 0),
                                 ROW("dev_shm", shared_directory, 0),
                                 ROW("open", descriptors, 0),
                                 ROW("pipes", descriptors, 1),
                                 ROW("sockets", descriptors, 2),
                                 ROW("epolls", descriptors, 3),
                                 ROW("eventfds", descriptors, 4),
                                 ROW("timerfds", descriptors, 5),
                                 ROW("inotifies", descriptors, 6),
                                 ROW("ptys", descriptors, 7),
                                 ROW("memfds", descriptors, 8),
                                 ROW("tmpfiles", descriptors, 9),
                                 ROW("pidfds", descriptors, 10),
                                 ROW("signalfds", descriptors, 11),
                                 ROW("inet_sockets", descriptors, 12),
                                 ROW("full_pipes", full_pipes, 0),
                                 ROW("full_streams", full_sockets, SOCK_STREAM),
                                 ROW("full_datagrams", full_sockets, SOCK_DGRAM),
                                 ROW("full_packets", full_sockets, SOCK_SEQPACKET),
                                 ROW("buried_sockets", buried_sockets, 0),
                                 ROW("connections", connections, 0),
                                 ROW("nested_epolls", nested_epolls, 0),
                                 ROW("epoll_loop", nested_epolls, 1),
                                 ROW("watches", watches, 0),
                                 ROW("signals", signals, 0),
                                 ROW("timers", timers, 0),
                                 ROW("deep_directories", deep_directories, 0),
                                 ROW("files", many_files, 0),
                                 ROW("links", many_files, 1),
                                 ROW("hard_links", many_files, 2),
                                 ROW("fifos", many_files, 3),
                                 ROW("directories", many_files, 4),
                                 ROW("attributes", attributes, 0),
                                 ROW("disk", large_files, 0),
                                 ROW("sparse", large_files, 1),
                                 ROW("allocated", large_files, 2),
                                 ROW("mapped", large_files, 3),
                                 ROW("locks", locks, 0),
                                 ROW("link_loops", long_links, 0),
                                 ROW("output", output, 0),
                                 ROW("stops", stops, 0),
                                 ROW("futexes", futex_waiters, 0),
                                 ROW("terminal", terminals, 0),
                                 ROW("calls", requests, 0),
                                 ROW("zombies", zombies, 0),
                                 ROW("limits", limits, 0),
                                 {NULL, NULL, 0}};
