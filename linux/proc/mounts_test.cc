#include "linux/proc/mounts.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "linux/files/caller_testing.h"
#include "linux/files/pipe.h"
#include "linux/files/regular_file.h"
#include "linux/fs/tree.h"

namespace membrane::linux {
namespace {

// A platform on which nothing runs.
class NoPlatform final : public Platform {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] uint64_t lowest() const override { return 0x10000; }
  [[nodiscard]] uint64_t highest() const override { return 0x7ff000000000; }
  Try<std::unique_ptr<Thread>> start() override { return err(EAGAIN); }
  Thread* wait(std::optional<std::chrono::steady_clock::time_point>) override { return nullptr; }
  void wake() override {}
};

class SystemMounts : public testing::Test {
 protected:
  SystemMounts() { EXPECT_TRUE(mount_system_directories(kernel)); }
  // Processes without tasks do not end by themselves.
  ~SystemMounts() override {
    while (!kernel.processes().empty()) kernel.forget(*kernel.processes().begin()->second);
  }

  static KernelOptions options() {
    return {.platform = std::make_unique<NoPlatform>(),
            .root = make_tree({}),
            .limits = {},
            .host_name = "guest"};
  }
  Try<NodeRef> find(std::string_view path, bool follows = true) {
    const Place place = {.root = kernel.root, .directory = kernel.root};
    MEMBRANE_ASSIGN(const LocationRef found,
                    walk(kernel.mounts, place, kernel.root, path, {}, {.follows_last = follows}));
    return found->node;
  }
  Try<FileRef> open(std::string_view path, int flags = O_RDONLY) {
    MEMBRANE_ASSIGN(const NodeRef node, find(path));
    return open_node(caller, node, flags);
  }
  std::string text_at(std::string_view path) {
    const auto file = open(path);
    return file ? read_text(**file, caller) : "error " + std::to_string(file.error());
  }
  std::set<std::string> names_in(std::string_view path) {
    std::set<std::string> names;
    const auto node = find(path);
    if (!node) return names;
    EXPECT_TRUE((*node)->list(0, [&](const DirectoryEntry& entry) {
      EXPECT_TRUE(names.emplace(entry.name).second) << entry.name;
      return true;
    }));
    return names;
  }
  Process& add_process(int id) {
    Process& process = kernel.add_process(id, nullptr);
    process.descriptors = std::make_shared<Descriptors>();
    process.place = std::make_shared<Place>(Place{.root = kernel.root, .directory = kernel.root});
    process.executable = "/bin/program";
    return process;
  }

  Kernel kernel{options()};
  FakeCaller caller;
};

TEST_F(SystemMounts, HaveTheDevicesOfEveryProgram) {
  EXPECT_EQ(write_text(**open("/dev/null", O_RDWR), caller, "abc").value(), 3u);
  EXPECT_EQ(read_text(**open("/dev/zero"), caller, 3), std::string(3, '\0'));
  EXPECT_EQ(open("/dev/tty").error(), ENXIO);
  EXPECT_EQ((*find("/dev/fd", false))->target().value(), "/proc/self/fd");
  EXPECT_EQ((*find("/dev/shm"))->attributes().mode, uint32_t{S_IFDIR | 01777});
  EXPECT_TRUE((*find("/dev/shm"))->create("name", {}));
}

TEST_F(SystemMounts, MakeTerminals) {
  const auto master = open("/dev/ptmx", O_RDWR);
  ASSERT_TRUE(master);
  EXPECT_EQ(names_in("/dev/pts"), (std::set<std::string>{"0", "ptmx"}));
}

TEST_F(SystemMounts, TellOfTheMachine) {
  EXPECT_EQ(text_at("/proc/sys/kernel/hostname"), "guest\n");
  EXPECT_EQ(text_at("/sys/devices/system/cpu/online"), "0-1\n");
  EXPECT_TRUE(text_at("/proc/meminfo").starts_with("MemTotal:"));
  EXPECT_EQ(open("/proc/version", O_RDWR).error(), EACCES);
  EXPECT_EQ(find("/proc/nothing").error(), ENOENT);
  EXPECT_EQ(find("/proc/self", false).value()->target().error(), ENOENT);  // no call is being answered
}

TEST_F(SystemMounts, ShowProcesses) {
  Process& process = add_process(7);
  process.descriptors->add(make_pipe({}, 0)->reader, false, 10).value();
  EXPECT_TRUE(names_in("/proc").contains("7"));
  EXPECT_EQ(text_at("/proc/7/comm"), "program\n");
  EXPECT_NE(text_at("/proc/7/status").find("Pid:\t7\n"), std::string::npos);
  EXPECT_EQ(names_in("/proc/7/fd"), std::set<std::string>{"0"});
  EXPECT_TRUE((*find("/proc/7/fd/0", false))->target()->starts_with("pipe:["));
  EXPECT_EQ(*find("/proc/7/fd/0"), process.descriptors->get(0).value()->node());
  EXPECT_EQ(*find("/proc/7/cwd"), kernel.root->node);
  EXPECT_EQ(find("/proc/7/fd/1").error(), ENOENT);
  EXPECT_EQ(find("/proc/07").error(), ENOENT);
  for (const std::string& name : names_in("/proc/7")) EXPECT_TRUE(find("/proc/7/" + name, false)) << name;
}

TEST_F(SystemMounts, ForgetProcessesThatAreGone) {
  Process& process = add_process(7);
  const auto status = open("/proc/7/status");
  const NodeRef descriptors = *find("/proc/7/fd");
  kernel.forget(process);
  EXPECT_EQ(read_text(**status, caller), "error " + std::to_string(ESRCH));
  EXPECT_EQ(descriptors->look_up("0").error(), ENOENT);
  EXPECT_EQ(find("/proc/7").error(), ENOENT);
}

TEST_F(SystemMounts, ReadTextsInPieces) {
  const auto file = open("/proc/sys/kernel/ostype");
  EXPECT_EQ(read_text(**file, caller, 3), "Lin");
  EXPECT_EQ(read_text(**file, caller, 30), "ux\n");
  EXPECT_EQ(read_text(**file, caller, 30), "");
  EXPECT_EQ((*file)->seek(-1, SEEK_SET).error(), EINVAL);
  EXPECT_EQ((*file)->seek(0, SEEK_SET).value(), 0u);
  EXPECT_EQ(read_text(**file, caller, 30), "Linux\n");
}

}  // namespace
}  // namespace membrane::linux
