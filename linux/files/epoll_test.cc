#include "linux/files/epoll.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"
#include "linux/files/devices.h"
#include "linux/files/event_file.h"
#include "linux/files/pipe.h"

namespace membrane::linux {
namespace {

epoll_event wanted(uint32_t events, uint64_t data = 0) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = data;
  return event;
}

// "1:4 2:1": data and events.
std::string told(EpollFile& epoll, size_t most = 10) {
  std::vector<epoll_event> events(most);
  const size_t count = epoll.collect(events);
  std::string text;
  for (const epoll_event& each : std::span(events).first(count))
    text += (text.empty() ? "" : " ") + std::to_string(each.data.u64) + ":" + std::to_string(each.events);
  return text;
}

std::shared_ptr<EpollFile> make_epoll() { return make_epoll_file(0).value(); }

void add_to(File& event_file, Caller& caller, uint64_t number = 1) {
  MemorySource source(std::as_bytes(std::span(&number, 1)));
  EXPECT_TRUE(event_file.write(caller, source));
}

TEST(Epoll, TellsOfAFileAsLongAsItIsReady) {
  FakeCaller caller;
  auto epoll = make_epoll();
  auto file = make_event_file(0, 0).value();
  EXPECT_TRUE(epoll->add(3, file, wanted(EPOLLIN, 1)));
  CountingWaiter waiter;
  epoll->join(waiter);
  EXPECT_EQ(told(*epoll), "");
  EXPECT_EQ(epoll->ready(), 0);
  add_to(*file, caller);
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(epoll->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(told(*epoll), "1:1");
  EXPECT_EQ(told(*epoll), "1:1");
  EXPECT_EQ(read_text(*file, caller, 8).size(), 8u);
  EXPECT_EQ(told(*epoll), "");
}

TEST(Epoll, TellsOfAnEdgeOnce) {
  FakeCaller caller;
  auto epoll = make_epoll();
  auto file = make_event_file(1, 0).value();
  EXPECT_TRUE(epoll->add(3, file, wanted(EPOLLIN | EPOLLET, 1)));
  EXPECT_EQ(told(*epoll), "1:1");
  EXPECT_EQ(told(*epoll), "");
  add_to(*file, caller);
  EXPECT_EQ(told(*epoll), "1:1");
  EXPECT_TRUE(epoll->modify(3, file, wanted(EPOLLIN | EPOLLET, 2)));
  EXPECT_EQ(told(*epoll), "2:1");
}

TEST(Epoll, IsToldOnceUntilItIsModified) {
  FakeCaller caller;
  auto epoll = make_epoll();
  auto file = make_event_file(1, 0).value();
  EXPECT_TRUE(epoll->add(3, file, wanted(EPOLLIN | EPOLLONESHOT, 1)));
  EXPECT_EQ(told(*epoll), "1:1");
  add_to(*file, caller);
  EXPECT_EQ(told(*epoll), "");
  EXPECT_TRUE(epoll->modify(3, file, wanted(EPOLLIN | EPOLLONESHOT, 1)));
  EXPECT_EQ(told(*epoll), "1:1");
}

TEST(Epoll, TellsOfHangUpsUnasked) {
  auto epoll = make_epoll();
  PipePair pipe = make_pipe({}, 0).value();
  EXPECT_TRUE(epoll->add(3, pipe.reader, wanted(0, 1)));
  EXPECT_EQ(told(*epoll), "");
  pipe.writer = nullptr;
  EXPECT_EQ(told(*epoll), "1:" + std::to_string(EPOLLHUP));
}

TEST(Epoll, IsFairWhenThereIsRoomForFew) {
  auto epoll = make_epoll();
  std::vector<FileRef> files;
  for (int i = 0; i < 3; ++i) {
    files.push_back(make_event_file(1, 0).value());
    EXPECT_TRUE(epoll->add(i, files.back(), wanted(EPOLLIN, static_cast<uint64_t>(i))));
  }
  EXPECT_EQ(told(*epoll, 2), "0:1 1:1");
  EXPECT_EQ(told(*epoll, 2), "2:1 0:1");
}

TEST(Epoll, ForgetsAFileThatIsClosed) {
  auto epoll = make_epoll();
  auto file = make_event_file(1, 0).value();
  EXPECT_TRUE(epoll->add(3, file, wanted(EPOLLIN, 1)));
  file = nullptr;
  EXPECT_EQ(told(*epoll), "");
  EXPECT_TRUE(epoll->add(3, make_event_file(1, 0).value(), wanted(EPOLLIN, 1)));
}

TEST(Epoll, KnowsItsEntriesByDescriptorAndFile) {
  auto epoll = make_epoll();
  auto file = make_event_file(0, 0).value();
  EXPECT_EQ(epoll->modify(3, file, wanted(EPOLLIN)).error(), ENOENT);
  EXPECT_EQ(epoll->remove(3, file).error(), ENOENT);
  EXPECT_TRUE(epoll->add(3, file, wanted(EPOLLIN)));
  EXPECT_EQ(epoll->add(3, file, wanted(EPOLLIN)).error(), EEXIST);
  EXPECT_TRUE(epoll->add(4, file, wanted(EPOLLIN)));
  EXPECT_TRUE(epoll->remove(3, file));
  FakeCaller caller;
  auto null = Devices().open(kNullDevice, caller, make_anonymous_node(AnonymousDevice::kOthers, 0), O_RDWR);
  if (!(*null)->can_poll()) {
    EXPECT_EQ(epoll->add(5, *null, wanted(EPOLLIN)).error(), EPERM);
  }
}

TEST(Epoll, WakesThroughInstancesThatWatchInstances) {
  FakeCaller caller;
  auto file = make_event_file(0, 0).value();
  auto inner = make_epoll(), outer = make_epoll();
  EXPECT_TRUE(outer->add(1, inner, wanted(EPOLLIN, 1)));
  EXPECT_TRUE(inner->add(2, file, wanted(EPOLLIN, 2)));
  EXPECT_EQ(outer->ready(), 0);
  CountingWaiter waiter;
  outer->join(waiter);
  add_to(*file, caller);
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(told(*outer), "1:1");
  EXPECT_EQ(told(*inner), "2:1");
  EXPECT_EQ(read_text(*file, caller, 8).size(), 8u);
  EXPECT_EQ(told(*outer), "");
}

TEST(Epoll, RefusesCirclesAndDepth) {
  auto epoll = make_epoll();
  EXPECT_EQ(epoll->add(1, epoll, wanted(EPOLLIN)).error(), EINVAL);
  std::vector<std::shared_ptr<EpollFile>> chain = {make_epoll()};
  int depth = 0;
  while (true) {
    auto next = make_epoll();
    const Done added = next->add(1, chain.back(), wanted(EPOLLIN));
    if (!added) {
      EXPECT_EQ(added.error(), ELOOP);
      break;
    }
    chain.push_back(next);
    ASSERT_LT(++depth, 10);
  }
  EXPECT_EQ(depth, EpollFile::kMostDepth);
  EXPECT_EQ(chain.front()->add(9, chain.back(), wanted(EPOLLIN)).error(), ELOOP);
  EXPECT_EQ(chain.front()->add(9, make_epoll(), wanted(EPOLLIN)).error(), ELOOP);
  chain.erase(chain.begin() + 2);  // the chain is cut
  EXPECT_TRUE(chain.front()->add(9, chain.back(), wanted(EPOLLIN)));
}

// Two instances of each level watch both of the level below: 2^depth paths, but each entry is marked once.
TEST(Epoll, MarksEachEntryOnceForAWake) {
  FakeCaller caller;
  auto file = make_event_file(0, 0).value();
  std::vector<std::shared_ptr<EpollFile>> all;
  std::vector<FileRef> below = {file};
  for (int level = 0; level < EpollFile::kMostDepth; ++level) {
    std::vector<FileRef> made;
    for (int i = 0; i < 20; ++i) {
      auto epoll = make_epoll();
      for (size_t j = 0; j < below.size(); ++j)
        EXPECT_TRUE(epoll->add(static_cast<int>(j), below[j], wanted(EPOLLIN)));
      EXPECT_EQ(told(*epoll), "");
      made.push_back(epoll);
      all.push_back(epoll);
    }
    below = made;
  }
  CountingWaiter waiter;
  below.back()->join(waiter);
  add_to(*file, caller);
  EXPECT_EQ(waiter.wakes, 20);
  EXPECT_EQ(below.back()->ready(), POLLIN | POLLRDNORM);
}

}  // namespace
}  // namespace membrane::linux
