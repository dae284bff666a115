// The owner's side of granted directories. The test plays a kernel process, including a hostile one.
#include "computers/directories/directory_broker.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "linux/granted/granted_directory.h"
#include "linux/granted/messages.h"

namespace membrane::computers {
namespace {

using linux::GrantedAct;
using linux::GrantedAnswer;
using linux::GrantedRequest;
using linux::HostFile;

class DirectoryBrokerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "granted-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ / "in" / "below");
    std::ofstream(folder_ / "in" / "a") << "text";
    std::ofstream(folder_ / "secret") << "secret";
    std::filesystem::create_symlink("../secret", folder_ / "in" / "out");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void open(policy::FsMode mode) {
    policy::FsGrant grant;
    grant.guest = "/data";
    grant.host = (folder_ / "in").string();
    grant.mode = mode;
    auto made = DirectoryBroker::create({grant}, budget_);
    ASSERT_TRUE(made) << made.error().to_string();
    broker_ = std::move(*made);
    ASSERT_EQ(broker_->mounts().size(), 1u);
    kernel_ = HostFile(dup(broker_->mounts()[0].socket));
    broker_->begin();
  }
  bool send(std::string_view message) {
    return ::send(kernel_.number(), message.data(), message.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(message.size());
  }
  struct Heard {
    GrantedAnswer head;
    std::string bytes;
  };
  std::optional<Heard> hear() {
    std::string message(1u << 20, '\0');
    const ssize_t got = ::recv(kernel_.number(), message.data(), message.size(), 0);
    Heard heard;
    if (got < static_cast<ssize_t>(sizeof heard.head)) return {};
    std::memcpy(&heard.head, message.data(), sizeof heard.head);
    heard.bytes = message.substr(sizeof heard.head, static_cast<size_t>(got) - sizeof heard.head);
    return heard;
  }
  Heard ask(GrantedRequest request, const std::string& path = "", const std::string& other = "",
            const std::string& bytes = "") {
    request.path_bytes = static_cast<uint32_t>(path.size());
    request.other_bytes = static_cast<uint32_t>(other.size());
    request.bytes = static_cast<uint32_t>(bytes.size());
    EXPECT_TRUE(
        send(std::string(reinterpret_cast<const char*>(&request), sizeof request) + path + other + bytes));
    return hear().value_or(Heard());
  }
  int error_of(GrantedAct act, const std::string& path, const std::string& other = "") {
    return ask({.act = act}, path, other).head.error;
  }

  std::filesystem::path folder_;
  policy::Budget budget_;
  std::unique_ptr<DirectoryBroker> broker_;
  HostFile kernel_;
};

TEST_F(DirectoryBrokerTest, ReadsAndWritesBeneathTheDirectory) {
  open(policy::FsMode::kWrite);
  EXPECT_EQ(ask({}, "a").head.size, 4u);
  EXPECT_EQ(ask({}, "").head.flags, uint32_t{GrantedAnswer::kIsDirectory});
  const uint64_t file = ask({.act = GrantedAct::kOpen, .flags = GrantedRequest::kForWriting}, "a").head.file;
  EXPECT_EQ(ask({.act = GrantedAct::kRead, .count = 100, .file = file}).bytes, "text");
  EXPECT_EQ(ask({.act = GrantedAct::kWrite, .file = file, .offset = 4}, "", "", " more").head.error, 0);
  EXPECT_EQ(ask({.act = GrantedAct::kRead, .count = 100, .file = file, .offset = 2}).bytes, "xt more");
  EXPECT_EQ(ask({.act = GrantedAct::kClose, .file = file}).head.error, 0);
  EXPECT_EQ(ask({.act = GrantedAct::kRead, .count = 100, .file = file}).head.error, EINVAL);
  EXPECT_EQ(error_of(GrantedAct::kRename, "a", "below/b"), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "in" / "below" / "b"));
  EXPECT_EQ(error_of(GrantedAct::kStatus, "a"), ENOENT);
  EXPECT_EQ(error_of(GrantedAct::kRemoveDirectory, "below"), ENOTEMPTY);
}

TEST_F(DirectoryBrokerTest, ChangesNothingThatIsGrantedForReading) {
  open(policy::FsMode::kRead);
  EXPECT_EQ(ask({.act = GrantedAct::kOpen, .flags = GrantedRequest::kForWriting}, "a").head.error, EACCES);
  for (const auto act :
       {GrantedAct::kUnlink, GrantedAct::kMakeDirectory, GrantedAct::kRemoveDirectory, GrantedAct::kRename,
        GrantedAct::kMakeLink, GrantedAct::kMakeHardLink, GrantedAct::kSetTimes, GrantedAct::kSetMode})
    EXPECT_NE(error_of(act, "a", "b"), 0) << static_cast<int>(act);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "in" / "a"));
}

TEST_F(DirectoryBrokerTest, TellsPermissionsAndLinksAsTheyAre) {
  std::filesystem::permissions(folder_ / "in" / "a", std::filesystem::perms(0640));
  open(policy::FsMode::kWrite);
  EXPECT_EQ(ask({}, "a").head.mode, 0640u);
  EXPECT_EQ(ask({.act = GrantedAct::kSetMode, .mode = 0750}, "a").head.error, 0);
  EXPECT_EQ(ask({}, "a").head.mode, 0750u);
  EXPECT_EQ(ask({}, "out").head.flags, uint32_t{GrantedAnswer::kIsLink});
  EXPECT_EQ(ask({.act = GrantedAct::kTarget}, "out").bytes, "../secret") << "what it says, not what is there";
  EXPECT_EQ(error_of(GrantedAct::kMakeLink, "mine", "../secret"), EACCES);
  EXPECT_EQ(error_of(GrantedAct::kMakeLink, "mine", "a"), 0);
  EXPECT_EQ(std::filesystem::read_symlink(folder_ / "in" / "mine"), "a");
}

TEST_F(DirectoryBrokerTest, LeavesTheDirectoryByNoPath) {
  open(policy::FsMode::kWrite);
  for (const char* path : {"../secret", "below/../../secret", "/secret", "out", "a/../../secret", ".", ".."})
    EXPECT_NE(ask({.act = GrantedAct::kOpen}, path).head.error, 0) << path;
  EXPECT_NE(error_of(GrantedAct::kRename, "a", "../moved"), 0);
  EXPECT_NE(error_of(GrantedAct::kMakeHardLink, "../secret", "mine"), 0);
  EXPECT_NE(error_of(GrantedAct::kStatus, std::string("a\0b", 3)), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "moved"));
}

TEST_F(DirectoryBrokerTest, ListsInParts) {
  for (int i = 0; i < 3000; ++i)
    std::ofstream(folder_ / "in" / "below" / (std::string(100, 'n') + std::to_string(i))) << i;
  open(policy::FsMode::kRead);
  const Heard first = ask({.act = GrantedAct::kList}, "below");
  EXPECT_EQ(first.head.entries, 3000u);
  EXPECT_LE(first.bytes.size(), GrantedRequest::kMostBytes);
  EXPECT_GT(ask({.act = GrantedAct::kList, .offset = 2999}, "below").bytes.size(), 100u);
  EXPECT_EQ(ask({.act = GrantedAct::kList, .offset = UINT64_MAX}, "below").bytes, "");
}

TEST_F(DirectoryBrokerTest, HearsNoMoreOfWhatIsNoRequest) {
  GrantedRequest lies = {.act = GrantedAct::kStatus};
  lies.path_bytes = 4000;
  GrantedRequest unknown = {.act = static_cast<GrantedAct>(99)};
  const auto bytes_of = [](const GrantedRequest& of) {
    return std::string(reinterpret_cast<const char*>(&of), sizeof of);
  };
  for (const std::string& message :
       {std::string("x"), bytes_of(lies), bytes_of(unknown), std::string(70000, 'x')}) {
    open(policy::FsMode::kWrite);
    EXPECT_TRUE(send(message));
    broker_->end();
    EXPECT_FALSE(hear());
  }
}

TEST_F(DirectoryBrokerTest, RefusesWhatIsNoDirectory) {
  policy::FsGrant grant;
  grant.guest = "/data";
  grant.host = (folder_ / "secret").string();
  EXPECT_FALSE(DirectoryBroker::create({grant}, budget_));
}

TEST_F(DirectoryBrokerTest, AFileWithALinkOfThisRunChangesItsPermissions) {
  open(policy::FsMode::kWrite);
  EXPECT_EQ(error_of(GrantedAct::kMakeHardLink, "a", "b"), 0);
  EXPECT_EQ(ask({.act = GrantedAct::kSetMode, .mode = 0600}, "b").head.error, 0);
  std::filesystem::create_hard_link(folder_ / "secret", folder_ / "in" / "of_others");
  EXPECT_EQ(ask({.act = GrantedAct::kSetMode, .mode = 0600}, "of_others").head.error, EACCES);
}

std::string text_of(const linux::NodeRef& node) {
  std::string text(100, '\0');
  const auto got = node->read(0, std::as_writable_bytes(std::span(text)));
  return got ? text.substr(0, *got) : "error " + std::to_string(got.error());
}

TEST_F(DirectoryBrokerTest, AFileThatTheHostReplacesIsAnotherOne) {
  open(policy::FsMode::kWrite);
  const linux::NodeRef root =
      linux::make_granted_directory(HostFile(dup(kernel_.number())), {.is_writable = true});
  const linux::NodeRef was_read = root->look_up("a").value();
  EXPECT_EQ(text_of(was_read), "text");
  std::ofstream(folder_ / "in" / "next") << "newer text";
  std::filesystem::rename(folder_ / "in" / "next", folder_ / "in" / "a");
  const linux::NodeRef now = root->look_up("a").value();
  EXPECT_EQ(text_of(now), "newer text");
  EXPECT_EQ(text_of(was_read), "text") << "it is open still";
  EXPECT_EQ(root->look_up("a").value(), now);
  const std::byte byte{'N'};
  ASSERT_TRUE(now->write(0, {&byte, 1}));
  std::string told;
  std::getline(std::ifstream(folder_ / "in" / "a"), told);
  EXPECT_EQ(told, "Newer text");
}

TEST_F(DirectoryBrokerTest, TheRoomThatIsLeftIsTheGrants) {
  for (const auto mode : {policy::FsMode::kRead, policy::FsMode::kWrite}) {
    open(mode);
    const linux::NodeRef root =
        linux::make_granted_directory(HostFile(dup(kernel_.number())), {.is_writable = true});
    const bool writes = mode == policy::FsMode::kWrite;
    EXPECT_EQ(root->room().most_bytes, policy::FsGrant().max_total_bytes);
    EXPECT_EQ(root->look_up("below").value()->room().free_nodes, writes ? policy::FsGrant().max_files : 0);
    if (!writes) {
      EXPECT_EQ(root->room().free_bytes, 0u);
      continue;
    }
    const uint64_t before = root->room().free_bytes;
    EXPECT_LE(before, policy::FsGrant().max_total_bytes);
    const std::byte byte{'N'};
    ASSERT_TRUE(root->look_up("a").value()->write(0, {&byte, 1}));
    ASSERT_TRUE(root->create("made", {}));
    EXPECT_LT(root->room().free_bytes, before);
    EXPECT_EQ(root->room().free_nodes, policy::FsGrant().max_files - 1);
  }
}

TEST_F(DirectoryBrokerTest, ListsADirectoryOfManyFiles) {
  for (int i = 0; i < 11'000; ++i) std::ofstream(folder_ / "in" / "below" / std::to_string(i)).flush();
  open(policy::FsMode::kWrite);
  const linux::NodeRef root = linux::make_granted_directory(HostFile(dup(kernel_.number())), {});
  const linux::NodeRef below = root->look_up("below").value();
  size_t count = 0;
  ASSERT_TRUE(below->list(0, [&](const linux::DirectoryEntry&) { return ++count != 0; }));
  EXPECT_EQ(count, 11'000u);
}

// No node loses its file: the one for which there is no room keeps its name.
TEST_F(DirectoryBrokerTest, OpenFilesKeepTheirBytesWithoutTheirNames) {
  open(policy::FsMode::kWrite);
  const linux::NodeRef root =
      linux::make_granted_directory(HostFile(dup(kernel_.number())), {.is_writable = true});
  std::vector<linux::NodeRef> files;
  size_t removed = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string name = "f" + std::to_string(i);
    const auto made = root->create(name, {.mode = S_IFREG | 0644});
    if (!made) break;
    files.push_back(*made);
    ASSERT_TRUE(files.back()->write(0, std::as_bytes(std::span(name))));
    const auto unlinked = root->unlink(name);
    if (unlinked) ++removed;
    else EXPECT_EQ(unlinked.error(), ENFILE);
  }
  EXPECT_GE(removed, 200u);
  EXPECT_LT(removed, 400u);
  for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(text_of(files[i]), "f" + std::to_string(i));
}

TEST_F(DirectoryBrokerTest, AMappingShowsWhatTheHostHasWrittenSince) {
  open(policy::FsMode::kRead);
  const linux::NodeRef root = linux::make_granted_directory(HostFile(dup(kernel_.number())), {});
  const linux::NodeRef node = root->look_up("a").value();
  const auto mapped = [&] {
    const auto backing = node->mapping(0, 4, false).value();
    std::string text(20, '\0');
    const ssize_t got = pread(backing.fd, text.data(), text.size(), 0);
    return text.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  };
  EXPECT_EQ(mapped(), "text");
  std::ofstream(folder_ / "in" / "a") << "longer text";
  EXPECT_EQ(mapped(), "longer text");
}

// A guest may map a file as it was before each of many changes.
TEST_F(DirectoryBrokerTest, CopiesOfMappedFilesCountAsLongAsTheyAreMapped) {
  open(policy::FsMode::kWrite);
  const auto copied = std::make_shared<uint64_t>(0);
  const linux::NodeRef root =
      linux::make_granted_directory(HostFile(dup(kernel_.number())),
                                    {.is_writable = true, .most_mapped_bytes = 10, .copied_bytes = copied});
  const linux::NodeRef node = root->look_up("a").value();
  const std::byte byte{'x'};
  auto first = node->mapping(0, 4, false).value();
  EXPECT_EQ(*copied, 4u);
  ASSERT_TRUE(node->write(0, {&byte, 1}));
  EXPECT_EQ(*copied, 4u);
  const auto second = node->mapping(0, 4, false).value();
  EXPECT_EQ(*copied, 8u);
  ASSERT_TRUE(node->write(0, {&byte, 1}));
  EXPECT_EQ(node->mapping(0, 4, false).error(), ENOMEM);
  first = {};
  EXPECT_EQ(*copied, 4u);
  EXPECT_TRUE(node->mapping(0, 4, false));
  EXPECT_EQ(*copied, 8u);  // the node has it for the next mapping
}

}  // namespace
}  // namespace membrane::computers
