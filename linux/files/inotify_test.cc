#include "linux/files/inotify.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

struct Room {
  FakeCaller caller;
  std::shared_ptr<Watches> all = std::make_shared<Watches>();
  std::shared_ptr<InotifyFile> file = make_inotify_file(all, 0).value();
  NodeRef directory = make_anonymous_node(AnonymousDevice::kMemory, S_IFDIR | 0755);
  NodeRef child = make_anonymous_node(AnonymousDevice::kMemory, S_IFREG | 0644);

  // "1:100:0:name": watch, mask in hexadecimal, cookie, name.
  std::string events(size_t room = 4096) {
    const std::string bytes = read_text(*file, caller, room);
    if (bytes.starts_with("error")) return bytes;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      inotify_event head;
      std::memcpy(&head, bytes.data() + at, sizeof head);
      char line[64];
      std::snprintf(line, sizeof line, "%d:%x:%u:", head.wd, head.mask, head.cookie);
      text += line +
              std::string(bytes.c_str() + at + sizeof head,
                          head.len == 0 ? 0 : strlen(bytes.c_str() + at + sizeof head)) +
              " ";
      at += sizeof head + head.len;
    }
    return text;
  }
};

TEST(Inotify, ReportsWhatHappensInADirectory) {
  Room room;
  EXPECT_EQ(room.file->add_watch(room.directory, IN_CREATE | IN_DELETE).value(), 1);
  CountingWaiter waiter;
  room.file->join(waiter);
  EXPECT_EQ(room.events(), "error 11");
  room.all->announce(*room.directory, IN_CREATE, "new");
  room.all->announce(*room.directory, IN_MODIFY, "new");
  room.all->announce(*room.child, IN_CREATE, "elsewhere");
  room.all->announce(*room.directory, IN_DELETE | IN_ISDIR, "sixteen-bytes-ab", 9);
  EXPECT_EQ(waiter.wakes, 2);
  int bytes = 0;
  EXPECT_TRUE(room.caller.ioctl(*room.file, FIONREAD, bytes));
  EXPECT_EQ(bytes, 16 + 16 + 16 + 32);
  EXPECT_EQ(room.events(), "1:100:0:new 1:40000200:9:sixteen-bytes-ab ");
}

TEST(Inotify, ReportsTheDirectoryAndTheFile) {
  Room room;
  EXPECT_TRUE(room.file->add_watch(room.directory, IN_MODIFY));
  EXPECT_TRUE(room.file->add_watch(room.child, IN_MODIFY));
  room.all->announce_both(room.directory.get(), "name", *room.child, IN_MODIFY);
  room.all->announce_both(nullptr, "name", *room.child, IN_MODIFY);  // as the last one
  EXPECT_EQ(room.events(), "1:2:0:name 2:2:0: ");
}

TEST(Inotify, ChangesAWatch) {
  Room room;
  EXPECT_EQ(room.file->add_watch(room.child, IN_MODIFY).value(), 1);
  EXPECT_EQ(room.file->add_watch(room.child, IN_ATTRIB).value(), 1);
  room.all->announce(*room.child, IN_MODIFY);
  EXPECT_EQ(room.file->add_watch(room.child, IN_MODIFY | IN_MASK_ADD).value(), 1);
  room.all->announce(*room.child, IN_MODIFY);
  room.all->announce(*room.child, IN_ATTRIB);
  EXPECT_EQ(room.events(), "1:2:0: 1:4:0: ");
  EXPECT_EQ(room.file->add_watch(room.child, IN_MODIFY | 0x10000000).error(), EEXIST);
  EXPECT_EQ(room.file->add_watch(room.child, IN_ONLYDIR).error(), EINVAL);
}

TEST(Inotify, EndsWatches) {
  Room room;
  EXPECT_TRUE(room.file->add_watch(room.child, IN_MODIFY | IN_ONESHOT));
  room.all->announce(*room.child, IN_MODIFY);
  room.all->announce(*room.child, IN_MODIFY);
  EXPECT_EQ(room.events(), "1:2:0: 1:8000:0: ");
  EXPECT_EQ(room.file->remove_watch(1).error(), EINVAL);
  EXPECT_EQ(room.file->add_watch(room.child, IN_DELETE_SELF).value(), 2);
  room.all->announce(*room.child, IN_DELETE_SELF);
  EXPECT_EQ(room.events(), "2:400:0: 2:8000:0: ");
  EXPECT_EQ(room.file->add_watch(room.child, IN_MODIFY).value(), 3);
  EXPECT_TRUE(room.file->remove_watch(3));
  EXPECT_EQ(room.events(), "3:8000:0: ");
  EXPECT_TRUE(room.all->is_empty());
}

TEST(Inotify, KeepsABoundedQueue) {
  Room room;
  EXPECT_TRUE(room.file->add_watch(room.directory, IN_CREATE));
  for (size_t i = 0; i < InotifyFile::kMostEvents + 10; ++i)
    room.all->announce(*room.directory, IN_CREATE, std::to_string(i));
  int bytes = 0;
  EXPECT_TRUE(room.caller.ioctl(*room.file, FIONREAD, bytes));
  EXPECT_EQ(static_cast<size_t>(bytes), InotifyFile::kMostEvents * 32 + 16);
  EXPECT_EQ(room.events(31), "error 22");
}

TEST(Inotify, LeavesNothingWhenItIsClosed) {
  Room room;
  EXPECT_TRUE(room.file->add_watch(room.directory, IN_CREATE));
  EXPECT_FALSE(room.all->is_empty());
  room.file = nullptr;
  EXPECT_TRUE(room.all->is_empty());
  room.all->announce(*room.directory, IN_CREATE, "x");
}

TEST(Inotify, IsLimitedInNumber) {
  Room room;
  std::vector<FileRef> files;
  for (size_t i = 1; i < Watches::kMostFiles; ++i) files.push_back(make_inotify_file(room.all, 0).value());
  EXPECT_EQ(make_inotify_file(room.all, 0).error(), EMFILE);
  files.pop_back();
  EXPECT_TRUE(make_inotify_file(room.all, 0));
  EXPECT_EQ(make_inotify_file(room.all, 1).error(), EINVAL);
}

}  // namespace
}  // namespace membrane::linux
