// splice(), tee() and vmsplice().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch, kB = kA + 256, kText = kA + 512;
constexpr uint64_t kNoWait = 2;  // SPLICE_F_NONBLOCK

struct Pair {
  uint64_t first = 0, second = 0;
};
Pair pair_at(ScriptedThread& t, uint64_t address) {
  const auto numbers = t.get<std::array<uint32_t, 2>>(address);
  return {numbers[0], numbers[1]};
}
std::string text_at(ScriptedThread& t, uint64_t address, size_t size) {
  std::string text(size, '\0');
  t.space()->read(address, std::as_writable_bytes(std::span(text)));
  return text;
}

// Two pipes, and "hello" in the first one.
struct Pipes {
  Pair a, b;
  std::vector<std::function<void(ScriptedThread&)>> steps_then(
      std::vector<std::function<void(ScriptedThread&)>> then) {
    then.insert(then.begin(), {[](ScriptedThread& t) { t.call(SYS_pipe2, {kA, 0}); },
                               [this](ScriptedThread& t) {
                                 a = pair_at(t, kA);
                                 t.call(SYS_pipe2, {kA, 0});
                               },
                               [this](ScriptedThread& t) {
                                 b = pair_at(t, kA);
                                 t.put_text(kText, "hello");
                                 t.call(SYS_write, {a.second, kText, 5});
                               }});
    return then;
  }
};

TEST(TransferTest, TeeLeavesTheBytesAndSpliceTakesThem) {
  ScriptedKernel on;
  Pipes p;
  const int status = on.run(
      steps(p.steps_then({[&](ScriptedThread& t) { t.call(SYS_tee, {p.a.first, p.b.second, 3, 0}); },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), 3);
                            t.call(SYS_splice, {p.a.first, 0, p.b.second, 0, 100, 0});
                          },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), 5);
                            t.call(SYS_read, {p.b.first, kB, 100});
                          },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), 8);
                            EXPECT_EQ(text_at(t, kB, 8), "helhello");
                            t.call(SYS_splice, {p.a.first, 0, p.b.second, 0, 100, kNoWait});
                          },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), -EAGAIN);
                            t.call(SYS_tee, {p.a.first, p.a.second, 100, kNoWait});
                          },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), -EINVAL);
                            t.call(SYS_close, {p.a.second});
                          },
                          [&](ScriptedThread& t) { t.call(SYS_tee, {p.a.first, p.b.second, 100, 0}); },
                          [&](ScriptedThread& t) {
                            EXPECT_EQ(t.result(), 0);
                            t.call(SYS_close, {p.b.first});
                          },
                          [&](ScriptedThread& t) { t.call(SYS_tee, {p.a.first, p.b.second, 100, 0}); }})));
  EXPECT_EQ(status & 0x7f, SIGPIPE);
}

TEST(TransferTest, SpliceMovesFromAndToSockets) {
  ScriptedKernel on;
  Pipes p;
  Pair sockets;
  on.run(steps(p.steps_then({[](ScriptedThread& t) { t.call(SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, kA}); },
                             [&](ScriptedThread& t) {
                               sockets = pair_at(t, kA);
                               t.call(SYS_splice, {p.a.first, 0, sockets.first, 0, 100, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 5);
                               t.call(SYS_splice, {sockets.second, 0, p.b.second, 0, 4, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 4);
                               t.call(SYS_read, {p.b.first, kB, 100});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(text_at(t, kB, 4), "hell");
                               t.call(SYS_splice, {sockets.second, 0, p.b.second, 0, 100, kNoWait});
                             },
                             [](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 1);
                               t.call(SYS_getpid);
                             }})));
}

// What cannot be written stays in the pipe.
TEST(TransferTest, SpliceToAFileMovesItsPosition) {
  ScriptedKernel on;
  Pipes p;
  uint64_t file = 0;
  on.run(steps(p.steps_then({[](ScriptedThread& t) {
                               t.put_text(kA, "/tmp/file");
                               t.call(SYS_open, {kA, O_RDWR | O_CREAT, 0600});
                             },
                             [&](ScriptedThread& t) {
                               file = static_cast<uint64_t>(t.result());
                               t.put(kA, int64_t{-1});
                               t.call(SYS_splice, {p.a.first, 0, file, kA, 100, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), -EINVAL);
                               t.call(SYS_splice, {p.a.first, 0, file, 0, 2, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 2);
                               t.put(kA, int64_t{10});
                               t.call(SYS_splice, {p.a.first, 0, file, kA, 100, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 3);
                               EXPECT_EQ(t.get<int64_t>(kA), 13);
                               t.call(SYS_pread64, {file, kB, 100, 0});
                             },
                             [&](ScriptedThread& t) {
                               EXPECT_EQ(t.result(), 13);
                               EXPECT_EQ(text_at(t, kB, 13), std::string("he\0\0\0\0\0\0\0\0llo", 13));
                               t.call(SYS_getpid);
                             }})));
}

TEST(TransferTest, VmspliceWritesAndReadsMemory) {
  ScriptedKernel on;
  Pipes p;
  on.run(steps(p.steps_then(
      {[&](ScriptedThread& t) {
         t.put(kA, std::array<uint64_t, 4>{kText, 2, kText + 4, 1});
         t.call(SYS_vmsplice, {p.b.second, kA, 2, 0});
       },
       [&](ScriptedThread& t) {
         EXPECT_EQ(t.result(), 3);
         t.put(kA, std::array<uint64_t, 2>{kB, 100});
         t.call(SYS_vmsplice, {p.b.first, kA, 1, 0});
       },
       [&](ScriptedThread& t) {
         EXPECT_EQ(t.result(), 3);
         EXPECT_EQ(text_at(t, kB, 3), "heo");
         t.call(SYS_vmsplice, {p.b.first, kA, 1, kNoWait});
       },
       [](ScriptedThread& t) {
         EXPECT_EQ(t.result(), -EAGAIN);
         t.put_text(kB, "/tmp");
         t.call(SYS_open, {kB, O_RDONLY, 0});
       },
       [](ScriptedThread& t) { t.call(SYS_vmsplice, {static_cast<uint64_t>(t.result()), kA, 1, 0}); },
       [](ScriptedThread& t) {
         EXPECT_EQ(t.result(), -EBADF);
         t.call(SYS_getpid);
       }})));
}

}  // namespace
}  // namespace membrane::linux
