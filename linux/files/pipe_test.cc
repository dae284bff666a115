#include "linux/files/pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <random>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

TEST(Pipe, GivesWhatWasWrittenThenEnds) {
  FakeCaller caller;
  auto pipe = make_pipe({}, 0).value();
  EXPECT_EQ(read_text(*pipe.reader, caller), "error 11");
  EXPECT_EQ(write_text(*pipe.writer, caller, "hello").value(), 5u);
  int count = 0;
  EXPECT_TRUE(caller.ioctl(*pipe.reader, FIONREAD, count));
  EXPECT_EQ(count, 5);
  EXPECT_EQ(read_text(*pipe.reader, caller, 2), "he");
  pipe.writer.reset();
  EXPECT_EQ(pipe.reader->ready(), POLLIN | POLLRDNORM | POLLHUP);
  EXPECT_EQ(read_text(*pipe.reader, caller), "llo");
  EXPECT_EQ(read_text(*pipe.reader, caller), "");
  EXPECT_EQ(pipe.reader->ready(), POLLHUP);
  EXPECT_EQ(pipe.reader->node()->type(), static_cast<uint32_t>(S_IFIFO));
  EXPECT_TRUE(pipe.reader->description().starts_with("pipe:["));
}

TEST(Pipe, TellsAWriterThatNooneReads) {
  FakeCaller caller;
  auto pipe = make_pipe({}, 0).value();
  pipe.reader.reset();
  EXPECT_EQ(write_text(*pipe.writer, caller, "x").error(), EPIPE);
  EXPECT_EQ(caller.own_signals, std::vector<int>{SIGPIPE});
  EXPECT_EQ(pipe.writer->ready(), POLLOUT | POLLWRNORM | POLLERR);
}

TEST(Pipe, WritesSmallPiecesAsAWhole) {
  FakeCaller caller;
  auto pipe = make_pipe({}, O_NONBLOCK).value();
  EXPECT_EQ(write_text(*pipe.writer, caller, std::string(65536 - 100, 'a')).value(), 65436u);
  EXPECT_EQ(write_text(*pipe.writer, caller, std::string(101, 'b')).error(), EAGAIN);
  EXPECT_EQ(write_text(*pipe.writer, caller, std::string(5000, 'b')).value(), 100u);
  EXPECT_EQ(write_text(*pipe.writer, caller, std::string(5000, 'b')).error(), EAGAIN);
  EXPECT_EQ(pipe.writer->ready(), 0);
}

TEST(Pipe, ChangesItsCapacity) {
  FakeCaller caller;
  auto pipe = make_pipe({}, 0).value();
  auto& end = dynamic_cast<PipeEnd&>(*pipe.writer);
  EXPECT_EQ(end.set_capacity(5000).value(), 8192);
  EXPECT_EQ(end.set_capacity(0).value(), 4096);
  EXPECT_EQ(end.set_capacity(1u << 21).error(), EPERM);
  EXPECT_EQ(end.set_capacity(uint64_t{1} << 40).error(), EINVAL);
  EXPECT_EQ(end.set_capacity(65536).value(), 65536);
  EXPECT_EQ(write_text(end, caller, std::string(9000, 'a')).value(), 9000u);
  EXPECT_EQ(end.set_capacity(8192).error(), EBUSY);
}

TEST(Pipe, AllTogetherHaveABound) {
  std::vector<PipePair> pipes;
  size_t all = 0;
  do pipes.push_back(make_pipe({}, 0).value());
  while (dynamic_cast<PipeEnd&>(*pipes.back().writer).set_capacity(Pipe::kMostCapacity) &&
         pipes.size() < 1000);
  for (const PipePair& each : pipes)
    all += static_cast<size_t>(dynamic_cast<PipeEnd&>(*each.writer).capacity());
  EXPECT_LE(all, Pipe::kMostOfAll + Pipe::kLeastCapacity);
  EXPECT_GT(all, Pipe::kMostOfAll - Pipe::kMostCapacity);
  EXPECT_EQ(dynamic_cast<PipeEnd&>(*pipes.back().writer).set_capacity(Pipe::kMostCapacity).error(), EPERM);
  while (pipes.size() < 1000 && all + Pipe::kUsualCapacity <= Pipe::kMostOfAll) {
    pipes.push_back(make_pipe({}, 0).value());
    all += Pipe::kUsualCapacity;
  }
  const auto capacity_of_new = [] {
    return static_cast<size_t>(dynamic_cast<PipeEnd&>(*make_pipe({}, 0)->writer).capacity());
  };
  EXPECT_EQ(capacity_of_new(), Pipe::kLeastCapacity);
  pipes.clear();
  EXPECT_EQ(capacity_of_new(), Pipe::kUsualCapacity);
}

TEST(Pipe, WakesItsOtherEnd) {
  FakeCaller caller;
  auto pipe = make_pipe({}, 0).value();
  CountingWaiter waiter;
  pipe.reader->join(waiter);
  ASSERT_TRUE(write_text(*pipe.writer, caller, "x"));
  EXPECT_EQ(waiter.wakes, 1);
  pipe.writer.reset();
  EXPECT_EQ(waiter.wakes, 2);
}

TEST(Pipe, IsOpenedAnewByItsNode) {
  FakeCaller caller;
  auto pipe = make_pipe({}, 0).value();
  auto another = pipe.reader->node()->open(caller, O_WRONLY).value();
  pipe.writer.reset();
  EXPECT_TRUE(write_text(*another, caller, "x"));
  EXPECT_EQ(read_text(*pipe.reader, caller), "x");
  EXPECT_EQ(read_text(*pipe.reader, caller), "error 11");
  another.reset();
  EXPECT_EQ(read_text(*pipe.reader, caller), "");
}

// A FIFO that a directory has a name for.
class NamedFifo final : public Node {
 public:
  [[nodiscard]] Attributes attributes() override { return {.mode = S_IFIFO | 0644}; }
};

TEST(Fifo, OfAPipeWithoutANameWaitsForNoOne) {
  FakeCaller caller;
  PipePair pipe = make_pipe({}, 0).value();
  pipe.writer = nullptr;
  EXPECT_TRUE(pipe.reader->node()->open(caller, O_RDONLY).value()->is_complete());
}

TEST(Fifo, WaitsForItsOtherSide) {
  FakeCaller caller;
  std::weak_ptr<Pipe> pipe;
  auto node = std::make_shared<NamedFifo>();
  EXPECT_EQ(open_fifo(pipe, node, O_WRONLY | O_NONBLOCK).error(), ENXIO);
  auto reader = open_fifo(pipe, node, O_RDONLY).value();
  EXPECT_FALSE(reader->is_complete());
  CountingWaiter waiter;
  reader->join(waiter);
  auto writer = open_fifo(pipe, node, O_WRONLY).value();
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_TRUE(writer->is_complete());
  EXPECT_TRUE(write_text(*writer, caller, "x"));
  writer.reset();
  EXPECT_TRUE(reader->is_complete());  // the other side came, and went
  EXPECT_EQ(read_text(*reader, caller), "x");
}

TEST(Fifo, HangsUpOnlyAfterAWriter) {
  FakeCaller caller;
  std::weak_ptr<Pipe> pipe;
  auto node = std::make_shared<NamedFifo>();
  auto reader = open_fifo(pipe, node, O_RDONLY | O_NONBLOCK).value();
  EXPECT_TRUE(reader->is_complete());
  EXPECT_EQ(reader->ready(), 0);
  EXPECT_EQ(read_text(*reader, caller), "");
  auto both = open_fifo(pipe, node, O_RDWR).value();
  EXPECT_TRUE(both->is_complete());
  EXPECT_EQ(read_text(*reader, caller), "error 11");
  both.reset();
  EXPECT_EQ(reader->ready(), POLLHUP);
}

// The same steps here and at a pipe of the host. The pipe is never so full that small writes, which leave the
// host's pages partly empty, make a difference.
TEST(Pipe, DoesAsThePipeOfTheHost) {
  ::signal(SIGPIPE, SIG_IGN);
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    FakeCaller caller;
    auto ours = make_pipe({}, O_NONBLOCK).value();
    int host[2];
    ASSERT_EQ(pipe2(host, O_NONBLOCK), 0);
    size_t inside = 0;
    for (int step = 0; step < 200; ++step) {
      const unsigned kind = random() % 64;
      if (kind == 0 && step > 100 && ours.writer != nullptr) {
        ours.writer.reset();
        close(host[1]);
      } else if (kind == 1 && step > 150 && ours.reader != nullptr) {
        ours.reader.reset();
        close(host[0]);
      } else if (kind < 32 && ours.writer != nullptr) {
        const std::string text(random() % 3000, static_cast<char>('a' + random() % 26));
        if (inside + text.size() > 20000) continue;
        auto count = write_text(*ours.writer, caller, text);
        const ssize_t theirs = ::write(host[1], text.data(), text.size());
        ASSERT_EQ(count ? static_cast<ssize_t>(*count) : -1, theirs);
        if (theirs > 0) inside += static_cast<size_t>(theirs);
      } else if (kind >= 32 && ours.reader != nullptr) {
        const size_t most = random() % 4000;
        std::string theirs(most, '\0');
        const ssize_t count = ::read(host[0], theirs.data(), most);
        theirs = count < 0 ? "error " + std::to_string(errno) : theirs.substr(0, static_cast<size_t>(count));
        ASSERT_EQ(read_text(*ours.reader, caller, most), theirs);
        if (count > 0) inside -= static_cast<size_t>(count);
      }
      if (inside > 0 && ours.writer != nullptr) continue;
      for (int side = 0; side < 2; ++side) {
        const FileRef& end = side == 0 ? ours.reader : ours.writer;
        if (end == nullptr) continue;
        pollfd theirs = {.fd = host[side], .events = POLLIN | POLLOUT | POLLERR | POLLHUP, .revents = 0};
        poll(&theirs, 1, 0);
        ASSERT_EQ(end->ready() & theirs.events, theirs.revents) << side;
      }
    }
    if (ours.reader != nullptr) close(host[0]);
    if (ours.writer != nullptr) close(host[1]);
  }
}

}  // namespace
}  // namespace membrane::linux
