// No two workers of a zygote share a namespace, though networks are reused.
#include "worker/network_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/worker.h"

namespace membrane::worker {
namespace {

constexpr std::array<const char*, 7> kKinds = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};

std::vector<std::string> children_of(const std::string& pid) {
  std::vector<std::string> all;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", none)) {
    std::ifstream in(task.path() / "children");
    for (std::string child; in >> child;) all.push_back(child);
  }
  return all;
}

// "net:[4026531840]" and so on; empty when this process may not look.
std::set<std::string> namespaces_of(const std::string& pid) {
  std::set<std::string> all;
  for (const char* const kind : kKinds) {
    std::error_code error;
    const auto name = std::filesystem::read_symlink("/proc/" + pid + "/ns/" + kind, error);
    if (error) return {};
    all.insert(name);
  }
  return all;
}

struct Family {
  std::shared_ptr<Zygote> zygote;
  std::string pid;  // of the zygote

  static Family start() {
    Family family;
    auto started = Zygote::start();
    EXPECT_TRUE(started);
    if (started) family.zygote = *started;
    const auto children = children_of(std::to_string(getpid()));
    if (!children.empty()) family.pid = children.back();
    return family;
  }
  // Null when there is none. Its namespaces exist once it answers anything.
  [[nodiscard]] std::shared_ptr<Worker> spawn() const {
    auto made = zygote->spawn();
    if (!made) return nullptr;
    static_cast<void>((*made)->open({}));
    return *made;
  }
  // The namespaces of this process, the zygote and its workers: each process has its own, which no other has.
  [[nodiscard]] std::vector<std::set<std::string>> all() const {
    std::vector<std::set<std::string>> each = {namespaces_of("self"), namespaces_of(pid)};
    for (const std::string& worker : children_of(pid)) each.push_back(namespaces_of(worker));
    return each;
  }
};

void expect_apart(const std::vector<std::set<std::string>>& all) {
  std::map<std::string, size_t> seen;
  for (const auto& one : all)
    for (const std::string& name : one) ++seen[name];
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1u) << name;
}

TEST(NetworkPool, NoTwoWorkersShareANamespace) {
  const Family family = Family::start();
  ASSERT_TRUE(family.zygote);
  const auto one = family.spawn(), other = family.spawn(), third = family.spawn();
  ASSERT_TRUE(one && other && third);
  const auto all = family.all();
  if (all.size() != 5 || all.back().size() != kKinds.size())
    GTEST_SKIP() << "this machine does not show the namespaces of other processes, or denies them";
  expect_apart(all);
}

TEST(NetworkPool, ThatOfAWorkerWhichHasEndedIsUsedAgainByOneOnly) {
  const Family family = Family::start();
  ASSERT_TRUE(family.zygote);
  const auto stays = family.spawn();
  ASSERT_TRUE(stays);
  std::set<std::string> nets;
  for (int i = 0; i < 8; ++i) {
    const auto worker = family.spawn();
    ASSERT_TRUE(worker);
    const auto all = family.all();
    if (all.size() < 4 || all.back().size() != kKinds.size())
      GTEST_SKIP() << "this machine does not show the namespaces of other processes, or denies them";
    expect_apart(all);
    for (const std::string& name : all.back())
      if (name.starts_with("net:")) nets.insert(name);
    // The zygote waits for the worker's end to report it.
    ASSERT_EQ(kill(std::stoi(children_of(family.pid).back()), SIGKILL), 0);
    EXPECT_EQ(worker->run({.source = "(func (export \"run\"))", .entry = {}}, {}).outcome,
              sandbox::Outcome::kFailed);
  }
  EXPECT_EQ(nets.size(), 1u);
}

}  // namespace
}  // namespace membrane::worker
