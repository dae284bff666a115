// A guest of keeping_test.cc: prepares one of each thing that a process may have, prints "ready", waits for a
// line, and checks that each thing is unchanged. It repeats the check for each line.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static int failures;
static const char* thing;
static int is_first = 1;  // what need only be checked once is checked the first time

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("%s: not %s (errno %d)\n", thing, what, errno);
}
#define EXPECT(condition) expect((condition) != 0, #condition)

static int reads(int file, const char* text) {
  char bytes[256] = {0};
  const ssize_t count = read(file, bytes, sizeof bytes - 1);
  return count == (ssize_t)strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

// -- files

static int offset_file, appended, nameless, directory, shared_offset;
static void prepare_files(void) {
  offset_file = open("/tmp/offset", O_RDWR | O_CREAT, 0644);
  shared_offset = dup(offset_file);
  appended = open("/tmp/appended", O_RDWR | O_CREAT | O_APPEND, 0600);
  nameless = open("/tmp/nameless", O_RDWR | O_CREAT, 0600);
  unlink("/tmp/nameless");
  dprintf(offset_file, "0123456789");
  lseek(offset_file, 3, SEEK_SET);
  dprintf(appended, "a");
  dprintf(nameless, "without a name");
  mkdir("/tmp/d", 0700);
  chdir("/tmp/d");
  umask(027);
  directory = open(".", O_RDONLY | O_DIRECTORY);
}
static void check_files(void) {
  thing = "files";
  char cwd[64] = "";
  lseek(nameless, 0, SEEK_SET);
  EXPECT(reads(nameless, "without a name"));
  EXPECT(strcmp(getcwd(cwd, sizeof cwd), "/tmp/d") == 0);
  EXPECT(faccessat(directory, ".", R_OK, 0) == 0);
  const mode_t mask = umask(027);
  EXPECT(mask == 027);
  if (!is_first) return;
  EXPECT(reads(shared_offset, "3456789"));
  EXPECT(lseek(offset_file, 0, SEEK_CUR) == 10);
  EXPECT(write(appended, "b", 1) == 1);
  EXPECT(lseek(appended, 0, SEEK_CUR) == 2);
}

// -- pipes and sockets

static int pipe_ends[2], pair[2], datagrams[2], listener, tcp_listener, client, served, netlink;
static struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0kept"};
static struct sockaddr_in tcp_name = {.sin_family = AF_INET};
static const struct {
  struct nlmsghdr header;
  struct ifinfomsg body;
} links = {{sizeof links, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {0}};
static int answers_links(void) {
  struct sockaddr_nl own = {0};
  socklen_t length = sizeof own;
  char bytes[8192] = {0};
  const struct nlmsghdr* const first = (const struct nlmsghdr*)bytes;
  return getsockname(netlink, (struct sockaddr*)&own, &length) == 0 && own.nl_pid == 77 &&
         recv(netlink, bytes, sizeof bytes, MSG_DONTWAIT) > (ssize_t)sizeof *first &&
         first->nlmsg_type == RTM_NEWLINK && first->nlmsg_pid == 77;
}
static void send_file(int socket, int file) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'f';
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &file, sizeof file);
  sendmsg(socket, &message, 0);
}
static int receive_file(int socket) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, 0) != 1 || byte != 'f') return -1;
  struct cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == NULL || head->cmsg_type != SCM_RIGHTS) return -1;
  int file = -1;
  memcpy(&file, CMSG_DATA(head), sizeof file);
  return file;
}
static void prepare_sockets(void) {
  pipe(pipe_ends);
  write(pipe_ends[1], "in the pipe", 11);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  send_file(pair[0], nameless);
  socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams);
  write(datagrams[0], "one", 3);
  write(datagrams[0], "two", 3);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(listener, (struct sockaddr*)&name, sizeof(sa_family_t) + 5);
  listen(listener, 4);
  client = socket(AF_UNIX, SOCK_STREAM, 0);
  connect(client, (struct sockaddr*)&name, sizeof(sa_family_t) + 5);
  write(client, "hello", 5);
  netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  const struct sockaddr_nl port = {.nl_family = AF_NETLINK, .nl_pid = 77};
  bind(netlink, (const struct sockaddr*)&port, sizeof port);
  write(netlink, &links, sizeof links);
  tcp_listener = socket(AF_INET, SOCK_STREAM, 0);
  tcp_name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(tcp_listener, (struct sockaddr*)&tcp_name, sizeof tcp_name);
  listen(tcp_listener, 4);
  socklen_t length = sizeof tcp_name;
  getsockname(tcp_listener, (struct sockaddr*)&tcp_name, &length);
  served = -1;
}
static void check_sockets(void) {
  thing = "sockets";
  const int fresh = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT(connect(fresh, (struct sockaddr*)&tcp_name, sizeof tcp_name) == 0);
  const int accepted = accept(tcp_listener, NULL, NULL);
  EXPECT(write(fresh, "tcp", 3) == 3);
  EXPECT(reads(accepted, "tcp"));
  close(accepted);
  EXPECT(read(fresh, &tcp_name.sin_zero, 1) == 0);
  close(fresh);
  EXPECT(answers_links());
  EXPECT(write(netlink, &links, sizeof links) == sizeof links);
  if (!is_first) {
    EXPECT(write(client, "again", 5) == 5);
    EXPECT(reads(served, "again"));
    return;
  }
  EXPECT(reads(pipe_ends[0], "in the pipe"));
  const int file = receive_file(pair[1]);
  lseek(file, 8, SEEK_SET);
  EXPECT(reads(nameless, "a name"));  // one description
  close(file);
  EXPECT(reads(datagrams[1], "one"));
  EXPECT(reads(datagrams[1], "two"));
  served = accept(listener, NULL, NULL);
  EXPECT(reads(served, "hello"));
  EXPECT(write(served, "back", 4) == 4);
  EXPECT(reads(client, "back"));
}

// -- descriptors that tell of events

static int events, timer, signals, epolls, watches;
static void prepare_events(void) {
  events = eventfd(5, EFD_NONBLOCK);
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  const struct itimerspec soon = {.it_value = {.tv_nsec = 50000000}, .it_interval = {.tv_sec = 1000}};
  timerfd_settime(timer, 0, &soon, NULL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signals = signalfd(-1, &set, SFD_NONBLOCK);
  kill(getpid(), SIGUSR1);
  epolls = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 77}};
  epoll_ctl(epolls, EPOLL_CTL_ADD, events, &event);
  watches = inotify_init1(IN_NONBLOCK);
  inotify_add_watch(watches, "/tmp/d", IN_CREATE);
  close(open("/tmp/d/first", O_CREAT | O_WRONLY, 0600));
}
static int next_created(const char* file) {
  char bytes[512] = {0};
  const ssize_t count = read(watches, bytes, sizeof bytes);
  const struct inotify_event* const event = (const struct inotify_event*)bytes;
  return count > 0 && (event->mask & IN_CREATE) != 0 && strcmp(event->name, file) == 0;
}
static void check_events(void) {
  thing = "events";
  struct epoll_event event = {0};
  uint64_t count = 0;
  if (!is_first) EXPECT(eventfd_write(events, 3) == 0);
  EXPECT(epoll_wait(epolls, &event, 1, 1000) == 1 && event.data.u64 == 77);
  EXPECT(read(events, &count, 8) == 8 && count == (is_first ? 5 : 3));
  EXPECT(epoll_wait(epolls, &event, 1, 0) == 0);
  if (!is_first) return;
  EXPECT(next_created("first"));
  close(open("/tmp/d/second", O_CREAT | O_WRONLY, 0600));
  EXPECT(next_created("second"));
  struct signalfd_siginfo info = {0};
  EXPECT(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
  struct pollfd waited = {timer, POLLIN, 0};
  while (poll(&waited, 1, -1) < 0 && errno == EINTR) continue;  // alarms come
  EXPECT(read(timer, &count, 8) == 8 && count == 1);
}

// -- memory

static char *own, *zeros, *shared, *of_file, *private_of_file, *hidden, *large;
static int memory_file;
static void prepare_memory(void) {
  own = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int page = 0; page < 16; page += 3) own[page * PAGE + page] = (char)('A' + page);
  zeros = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy(shared, "shared");
  const int file = open("/tmp/mapped", O_RDWR | O_CREAT, 0600);
  ftruncate(file, 3 * PAGE);
  pwrite(file, "of the file", 11, PAGE);
  of_file = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  private_of_file = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  strcpy(of_file, "written by mapping");
  strcpy(private_of_file + 2 * PAGE, "mine");
  close(file);
  hidden = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(hidden, "hidden");
  mprotect(hidden, PAGE, PROT_NONE);
  large = malloc(3u << 20);
  memset(large, 'x', 3u << 20);
  memory_file = memfd_create("memory", MFD_ALLOW_SEALING);
  dprintf(memory_file, "in memory");
  fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK);
}
static void check_memory(void) {
  thing = "memory";
  char bytes[32] = {0};
  for (int page = 0; page < 16; page += 3) EXPECT(own[page * PAGE + page] == 'A' + page);
  EXPECT(own[PAGE] == 0);
  EXPECT(strcmp(shared, "shared") == 0);
  EXPECT(strcmp(of_file, "written by mapping") == 0);
  const int file = open("/tmp/mapped", O_RDONLY);
  EXPECT(read(file, bytes, 18) == 18 && strcmp(bytes, "written by mapping") == 0);
  close(file);
  EXPECT(strcmp(private_of_file + PAGE, "of the file") == 0);
  EXPECT(strcmp(private_of_file + 2 * PAGE, "mine") == 0);
  EXPECT(of_file[2 * PAGE] == 0);
  mprotect(hidden, PAGE, PROT_READ);
  EXPECT(strcmp(hidden, "hidden") == 0);
  mprotect(hidden, PAGE, PROT_NONE);
  for (size_t at = 0; at < 3u << 20; at += PAGE) EXPECT(large[at] == 'x');
  memset(bytes, 0, sizeof bytes);
  EXPECT(pread(memory_file, bytes, 9, 0) == 9 && strcmp(bytes, "in memory") == 0);
  EXPECT(ftruncate(memory_file, 1) == -1 && errno == EPERM);
}
// Operations that change mappings, over pages that were kept.
static void change_memory(void) {
  thing = "changed memory";
  EXPECT(madvise(own + 3 * PAGE, PAGE, MADV_DONTNEED) == 0);
  EXPECT(own[3 * PAGE + 3] == 0);
  own[3 * PAGE + 3] = 'A' + 3;
  char* const moved = mremap(own, 16 * PAGE, 20 * PAGE, MREMAP_MAYMOVE);
  EXPECT(moved != MAP_FAILED);
  if (moved != MAP_FAILED) own = moved;
  EXPECT(own[19 * PAGE] == 0);
  own = mremap(own, 20 * PAGE, 16 * PAGE, 0);
  EXPECT(madvise(private_of_file + 2 * PAGE, PAGE, MADV_DONTNEED) == 0);
  EXPECT(private_of_file[2 * PAGE] == 0);
  strcpy(private_of_file + 2 * PAGE, "mine");
  zeros[0] = 1;
  munmap(zeros + PAGE, PAGE);
  zeros[2 * PAGE] = 1;
}

// -- processes and threads

static pid_t child, ended;
static int to_child[2], from_child[2], of_child;
static void prepare_processes(void) {
  pipe(to_child);
  pipe(from_child);
  child = fork();
  if (child == 0) {
    char line[16];
    for (;;) {
      const ssize_t count = read(to_child[0], line, sizeof line);
      if (count <= 0) _exit(9);
      shared[PAGE] = 'c';
      write(from_child[1], line, (size_t)count);
    }
  }
  ended = fork();
  if (ended == 0) _exit(7);
  siginfo_t info;
  waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT);
  of_child = (int)syscall(SYS_pidfd_open, child, 0);
}
static int segment, semaphores, messages;
static char* attached;
static void prepare_system_v(void) {
  segment = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
  attached = shmat(segment, NULL, 0);
  strcpy(attached, "of a segment");
  semaphores = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
  semctl(semaphores, 1, SETVAL, 4);
  messages = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  const struct {
    long type;
    char text[4];
  } message = {3, "msg"};
  msgsnd(messages, &message, sizeof message.text, 0);
}
static void check_system_v(void) {
  thing = "System V";
  EXPECT(strcmp(attached, "of a segment") == 0);
  char* const again = shmat(segment, NULL, SHM_RDONLY);
  EXPECT(again != (char*)-1 && strcmp(again, "of a segment") == 0);
  shmdt(again);
  EXPECT(semctl(semaphores, 1, GETVAL) == 4);
  if (!is_first) return;
  struct {
    long type;
    char text[4];
  } message = {0, ""};
  EXPECT(msgrcv(messages, &message, sizeof message.text, 0, IPC_NOWAIT) == 4 && message.type == 3);
}

static void check_processes(void) {
  thing = "processes";
  static pid_t own_id;
  if (own_id == 0) own_id = getpid();
  EXPECT(getpid() == own_id && kill(child, 0) == 0);
  EXPECT(write(to_child[1], "ask", 3) == 3);
  EXPECT(reads(from_child[0], "ask"));
  EXPECT(shared[PAGE] == 'c');
  struct pollfd waited = {of_child, POLLIN, 0};
  EXPECT(poll(&waited, 1, 0) == 0);
  int status = 0;
  if (is_first) EXPECT(waitpid(ended, &status, 0) == ended && WEXITSTATUS(status) == 7);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asked, answered;
static volatile int spins_on = 1;
static volatile uint64_t wrong_vectors, turns;
static _Thread_local int mine = 1;
static void* wait_to_be_asked(void* unused) {
  mine = 2;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (asked == answered) pthread_cond_wait(&changed, &mutex);
    answered = mine == 2 ? asked : -1;
    pthread_cond_broadcast(&changed);
  }
  return unused;
}
// Keeps numbers in vector registers all the time.
static void* compute(void* unused) {
  while (spins_on) {
    uint64_t low = 0, high = 0;
    asm volatile(
        "movq %2, %%xmm7; pinsrq $1, %3, %%xmm7; mov $100000, %%ecx; 1: dec %%ecx; jnz 1b;"
        "movq %%xmm7, %0; pextrq $1, %%xmm7, %1"
        : "=&r"(low), "=&r"(high)
        : "r"(0x1122334455667788ull), "r"(0x99aabbccddeeff00ull)
        : "xmm7", "ecx");
    wrong_vectors += low != 0x1122334455667788ull || high != 0x99aabbccddeeff00ull;
    ++turns;
  }
  return unused;
}
static void prepare_threads(void) {
  static pthread_t waiting, computing;
  pthread_create(&waiting, NULL, wait_to_be_asked, NULL);
  pthread_create(&computing, NULL, compute, NULL);
}
static void check_threads(void) {
  thing = "threads";
  EXPECT(mine == 1);
  pthread_mutex_lock(&mutex);
  const int question = ++asked;
  pthread_cond_broadcast(&changed);
  while (answered != question && answered != -1) pthread_cond_wait(&changed, &mutex);
  EXPECT(answered == question);
  pthread_mutex_unlock(&mutex);
  const uint64_t before = turns;
  while (turns < before + 3) sched_yield();
  EXPECT(wrong_vectors == 0);
}

// -- time, limits, locks, terminals

static volatile sig_atomic_t alarms;
static void count_alarm(int number) { alarms += number == SIGALRM; }
static struct timespec before;
static int locked;
static void prepare_rest(void) {
  struct sigaction action = {.sa_handler = count_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {.it_value = {.tv_usec = 20000}, .it_interval = {.tv_usec = 20000}};
  setitimer(ITIMER_REAL, &often, NULL);
  clock_gettime(CLOCK_MONOTONIC, &before);
  const struct rlimit limit = {.rlim_cur = 111, .rlim_max = 222};
  setrlimit(RLIMIT_NOFILE, &limit);
  setpriority(PRIO_PROCESS, 0, 5);
  locked = open("/tmp/locked", O_RDWR | O_CREAT, 0600);
  flock(locked, LOCK_EX);
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  fcntl(locked, F_SETLK, &range);
}
static void check_rest(void) {
  thing = "the rest";
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double passed = (double)(now.tv_sec - before.tv_sec) + (double)(now.tv_nsec - before.tv_nsec) / 1e9;
  EXPECT(passed > 0 && passed < 600);
  struct timespec asked_time;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &asked_time);
  EXPECT(asked_time.tv_sec - now.tv_sec <= 1);
  const sig_atomic_t alarms_before = alarms;
  while (alarms == alarms_before) sched_yield();
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT(limit.rlim_cur == 111 && limit.rlim_max == 222);
  EXPECT(getpriority(PRIO_PROCESS, 0) == 5);
  const int other = open("/tmp/locked", O_RDWR);
  EXPECT(flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  close(other);
  if (!is_first) return;  // closing has let go of the range
  flock(locked, LOCK_UN);
  flock(locked, LOCK_EX);
}

static int master, slave;
static void prepare_terminal(void) {
  openpty(&master, &slave, NULL, NULL, NULL);
  struct winsize size = {.ws_row = 12, .ws_col = 34};
  ioctl(master, TIOCSWINSZ, &size);
  write(master, "half", 4);  // of a line
}
static void check_terminal(void) {
  thing = "terminals";
  struct winsize size = {0};
  ioctl(slave, TIOCGWINSZ, &size);
  EXPECT(size.ws_row == 12 && size.ws_col == 34);
  EXPECT(write(master, " line\n", 6) == 6);
  EXPECT(reads(slave, is_first ? "half line\n" : " line\n"));
  char name_of[64] = "";
  EXPECT(ttyname_r(slave, name_of, sizeof name_of) == 0 && access(name_of, F_OK) == 0);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  prepare_files();
  prepare_sockets();
  prepare_events();
  prepare_memory();
  prepare_system_v();
  prepare_processes();
  prepare_threads();
  prepare_rest();
  prepare_terminal();
  printf("ready\n");
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    failures = 0;
    check_files();
    check_sockets();
    check_events();
    check_memory();
    change_memory();
    check_memory();
    check_system_v();
    check_processes();
    check_threads();
    check_rest();
    check_terminal();
    is_first = 0;
    unsigned char random[4] = {0};
    getrandom(random, sizeof random, 0);
    printf("%s: %02x%02x%02x%02x\n", failures == 0 ? "all as it was" : "changed", random[0], random[1],
           random[2], random[3]);
  }
  kill(child, SIGKILL);
  return 0;
}
