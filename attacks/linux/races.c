// Another thread changes memory that a call is reading: what was checked must be what is used.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

enum { kRounds = 1500 };

static volatile unsigned char* flipped;
static volatile size_t flipped_bytes;
static volatile int is_over;

static void* flip(void* unused) {
  unsigned long seed = 1;
  while (!is_over) {
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    const size_t at = (seed >> 40) % flipped_bytes;
    const unsigned char before = flipped[at];
    flipped[at] = (unsigned char)(seed >> 33);
    if (seed & 0x100000000) flipped[at] = before;
    if ((seed & 0x3f) == 0) sched_yield();
  }
  return unused;
}

static void flip_in(void* memory, size_t bytes) {
  flipped = memory;
  flipped_bytes = bytes;
  pthread_t thread;
  pthread_create(&thread, NULL, flip, NULL);
}

static void* page(void) {
  return mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int race_iovec(long is_write) {
  struct iovec* const parts = page();
  char* const bytes = page();
  const int file = open("/tmp/race", O_RDWR | O_CREAT | O_TRUNC, 0600);
  ftruncate(file, 4096);
  flip_in(parts, 8 * sizeof *parts);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 8; ++i) parts[i] = (struct iovec){bytes + 64 * i, 64};
    if (is_write) call(SYS_pwritev, file, parts, 8, 0, 0);
    else call(SYS_preadv, file, parts, 8, 0, 0);
  }
  return kHeld;
}

static int race_message(long is_send) {
  int ends[2];
  socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends);
  struct {
    struct msghdr head;
    struct iovec part;
    char control[128], name[128], bytes[256];
  }* const all = page();
  flip_in(all, sizeof *all);
  for (int round = 0; round < kRounds; ++round) {
    all->part = (struct iovec){all->bytes, sizeof all->bytes};
    all->head = (struct msghdr){.msg_iov = &all->part,
                                .msg_iovlen = 1,
                                .msg_control = all->control,
                                .msg_controllen = CMSG_SPACE(2 * sizeof(int)),
                                .msg_name = is_send ? NULL : all->name,
                                .msg_namelen = is_send ? 0 : sizeof all->name};
    struct cmsghdr* const control = (struct cmsghdr*)all->control;
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(2 * sizeof(int));
    if (is_send) call(SYS_sendmsg, ends[0], &all->head, MSG_DONTWAIT);
    else send(ends[0], "x", 1, MSG_DONTWAIT);
    call(SYS_recvmsg, ends[1], &all->head, MSG_DONTWAIT);
  }
  return kHeld;
}

static int race_path(long number) {
  char* const path = page();
  flip_in(path, 64);
  for (int round = 0; round < kRounds; ++round) {
    strcpy(path, "/tmp/../tmp/./a/../../proc/self/root/../../etc/passwd");
    switch (number) {
      case SYS_openat: close((int)call(number, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0)); break;
      case SYS_renameat: call(number, AT_FDCWD, path, AT_FDCWD, path + 8); break;
      case SYS_symlink: call(number, path, path + 5); break;
      default: call(number, path, path + 20, 0777, 0); break;
    }
  }
  return kHeld;
}

static int race_poll(long which) {
  int ends[2];
  pipe(ends);
  struct pollfd* const list = page();
  flip_in(list, 64 * sizeof *list);
  const int epoll = epoll_create1(0);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 64; ++i) list[i] = (struct pollfd){ends[i & 1], POLLIN | POLLOUT, 0};
    if (which == 0) call(SYS_poll, list, 64, 0);
    else if (which == 1)
      call(SYS_select, 1024, list, (char*)list + 128, (char*)list + 256, (char*)list + 400);
    else call(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD + round % 3, ends[0], list);
  }
  return kHeld;
}

static void do_nothing(int signal) { (void)signal; }
static int race_time(long number) {
  struct timespec* const times = page();
  flip_in(times, 4 * sizeof *times);
  // A time that has become long is interrupted.
  struct sigaction action = {.sa_handler = do_nothing};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 5000}, {0, 5000}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int round = 0; round < kRounds / 5; ++round) {
    memset(times, 0, 4 * sizeof *times);
    if (number == SYS_nanosleep) call(number, times, times + 1);
    else if (number == SYS_utimensat) call(number, AT_FDCWD, "/tmp/race", times, 0);
    else call(number, times, 0, times, 0, 0, 0);
  }
  return kHeld;
}

static int race_execve(long unused) {
  (void)unused;
  struct {
    char* words[16];
    char text[256];
  }* const all = page();
  flip_in(all, sizeof *all);
  for (int round = 0; round < 60; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 15; ++i) all->words[i] = all->text + 3 * i;
      flip_in(all, sizeof *all);
      call(SYS_execve, "/bin/true", all->words, all->words + 1);
      _exit(0);
    }
    call(SYS_wait4, child, 0, 0, 0);
  }
  return kHeld;
}

static int race_futex(long operation) {
  uint32_t* const words = page();
  flip_in(words, 64);
  for (int round = 0; round < kRounds; ++round) {
    const struct timespec soon = {0, 1000};
    call(SYS_futex, words, operation, words[0], operation == 0 ? (long)&soon : 1, words + 1, words[0]);
  }
  return kHeld;
}

// The robust list is a list in the guest's memory that the kernel walks when a thread ends.
static int race_robust_list(long is_loop) {
  struct {
    void* next;
    long offset;
    void* pending;
  }* const list = page();
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      list->next = is_loop ? (void*)list + 32 : (void*)0xffff800000000000;
      ((void**)((char*)list + 32))[0] = (char*)list + 40;
      ((void**)((char*)list + 40))[0] = (char*)list + 32;
      list->offset = round % 2 ? 8 : -0x7fffffffffff0000;
      list->pending = (void*)0x7ffe00000001;
      call(SYS_set_robust_list, list, 24);
      _exit(0);
    }
    call(SYS_wait4, child, 0, 0, 0);
  }
  return kHeld;
}

// Mappings are created and removed while calls read and write there.
static volatile char* moving;
static void* unmap_and_map(void* unused) {
  while (!is_over) {
    munmap((void*)moving, 65536);
    mmap((void*)moving, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mprotect((void*)moving, 65536, PROT_READ);
    mprotect((void*)moving, 65536, PROT_READ | PROT_WRITE);
  }
  return unused;
}
static int race_mappings(long number) {
  moving = page();
  const int file = open("/dev/zero", O_RDWR), out = open("/tmp/race", O_RDWR | O_CREAT, 0600);
  pthread_t thread;
  pthread_create(&thread, NULL, unmap_and_map, NULL);
  for (int round = 0; round < kRounds; ++round) {
    if (number == SYS_read) call(number, file, moving, 65536);
    else if (number == SYS_write) call(number, out, moving, 65536);
    else if (number == SYS_getdents64) call(number, open("/", O_RDONLY), moving, 65536);
    else call(number, moving, 65536, 65536 * 2, 1, 0, 0);
    if (number == SYS_getdents64) call(SYS_close_range, 5, 1000, 0);
    if (number == SYS_write) ftruncate(out, 0), lseek(out, 0, SEEK_SET);
  }
  return kHeld;
}

static void* close_all(void* unused) {
  while (!is_over)
    for (int i = 3; i < 12; ++i) close(i);
  return unused;
}
static int race_descriptors(long unused) {
  (void)unused;
  pthread_t thread;
  pthread_create(&thread, NULL, close_all, NULL);
  char bytes[512];
  for (int round = 0; round < kRounds; ++round) {
    int ends[2] = {3, 4};
    pipe2(ends, O_NONBLOCK);
    write(ends[1], bytes, sizeof bytes);
    read(ends[0], bytes, sizeof bytes);
    dup2(ends[0], ends[1]);
    const int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    epoll_wait(epoll, &event, 1, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  }
  return kHeld;
}

// Another thread changes a handler's frame and stack; sigreturn with state that nobody saved.
static int race_signal_frames(long unused) {
  (void)unused;
  char* const stack = page();
  const stack_t alternate = {.ss_sp = stack, .ss_size = 65536};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  for (int child = 0; child < 40; ++child) {
    const pid_t process = fork();
    if (process == 0) {
      flip_in(stack + 65536 - 4096, 4096);
      for (int round = 0; round < 200; ++round) raise(SIGUSR1);
      _exit(0);
    }
    call(SYS_wait4, process, 0, 0, 0);
  }
  return kHeld;
}

static int race_sigreturn(long seed) {
  for (int child = 0; child < 60; ++child) {
    const pid_t process = fork();
    if (process == 0) {
      unsigned long* const frame = page();
      unsigned long random = (unsigned long)seed * 977 + (unsigned long)child * 131071;
      for (int i = 0; i < 512; ++i) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        frame[i] = random >> (random >> 59);
      }
      __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall; ud2" ::"r"(frame + 8));
    }
    call(SYS_wait4, process, 0, 0, 0);
  }
  return kHeld;
}

const struct Attack kRaces[] = {{"race.readv", race_iovec, 0},
                                {"race.writev", race_iovec, 1},
                                {"race.recvmsg", race_message, 0},
                                {"race.sendmsg", race_message, 1},
                                {"race.open", race_path, SYS_openat},
                                {"race.rename", race_path, SYS_renameat},
                                {"race.symlink", race_path, SYS_symlink},
                                {"race.mkdir", race_path, SYS_mkdir},
                                {"race.link", race_path, SYS_link},
                                {"race.unlink", race_path, SYS_unlink},
                                {"race.poll", race_poll, 0},
                                {"race.select", race_poll, 1},
                                {"race.epoll", race_poll, 2},
                                {"race.nanosleep", race_time, SYS_nanosleep},
                                {"race.utimensat", race_time, SYS_utimensat},
                                {"race.ppoll", race_time, SYS_ppoll},
                                {"race.execve", race_execve, 0},
                                {"race.futex_wait", race_futex, 0},
                                {"race.futex_wake", race_futex, 1},
                                {"race.futex_requeue", race_futex, 4},
                                {"race.futex_wake_op", race_futex, 5},
                                {"race.robust_list", race_robust_list, 0},
                                {"race.robust_loop", race_robust_list, 1},
                                {"race.read_unmapped", race_mappings, SYS_read},
                                {"race.write_unmapped", race_mappings, SYS_write},
                                {"race.getdents_unmapped", race_mappings, SYS_getdents64},
                                {"race.mremap_unmapped", race_mappings, SYS_mremap},
                                {"race.descriptors", race_descriptors, 0},
                                {"race.signal_frames", race_signal_frames, 0},
                                {"race.sigreturn_1", race_sigreturn, 1},
                                {"race.sigreturn_2", race_sigreturn, 2},
                                {NULL, NULL, 0}};
