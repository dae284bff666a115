// What remains of the previous program after execve().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kPath = ScriptedKernel::kScratch;

struct Seen {
  std::shared_ptr<Space> before, after;  // kept, so that none gets the address of another
  int64_t user = -1;
};

// A user's process executes the program, which is root's and has that mode.
Seen execute_with_mode(uint32_t mode, bool has_no_new_privileges = false) {
  ScriptedKernel on;
  const auto program = on.kernel->root->node->look_up("other");
  AttributeChange change;
  change.mode = mode;
  EXPECT_TRUE(program && (*program)->change(change));
  Seen seen;
  on.run(steps({[&](ScriptedThread& t) {
                  t.call(SYS_prctl, {PR_SET_NO_NEW_PRIVS, has_no_new_privileges ? 1u : 0u, 0, 0, 0});
                },
                [&](ScriptedThread& t) {
                  seen.before = t.space();
                  t.put_text(kPath, "/other");
                  t.call(SYS_execve, {kPath, 0, 0});
                },
                [&](ScriptedThread& t) {
                  seen.after = t.space();
                  t.call(SYS_geteuid);
                },
                [&](ScriptedThread& t) {
                  seen.user = t.result();
                  t.call(SYS_getpid);
                }}),
         {.uid = 1000, .euid = 1000, .suid = 1000, .fsuid = 1000});
  return seen;
}

TEST(ExecTest, AProgramOfTheSameUserMayHaveTheSameSpace) {
  const Seen seen = execute_with_mode(0755);
  EXPECT_EQ(seen.user, 1000);
}

// Threads and the like that a hostile guest created in its space, bypassing the kernel, must be gone.
TEST(ExecTest, ASetUserIdProgramHasASpaceOfItsOwn) {
  const Seen seen = execute_with_mode(04755);
  EXPECT_EQ(seen.user, 0);
  EXPECT_NE(seen.before, seen.after);
}

TEST(ExecTest, ASetGroupIdProgramHasASpaceOfItsOwn) {
  ScriptedKernel on;
  const auto program = on.kernel->root->node->look_up("other");
  AttributeChange change;
  change.mode = 02755;
  change.gid = 7;
  ASSERT_TRUE(program && (*program)->change(change));
  std::shared_ptr<Space> before, after;
  int64_t group = -1;
  on.run(steps({[&](ScriptedThread& t) {
                  before = t.space();
                  t.put_text(kPath, "/other");
                  t.call(SYS_execve, {kPath, 0, 0});
                },
                [&](ScriptedThread& t) {
                  after = t.space();
                  t.call(SYS_getegid);
                },
                [&](ScriptedThread& t) {
                  group = t.result();
                  t.call(SYS_getpid);
                }}));
  EXPECT_EQ(group, 7);
  EXPECT_NE(before, after);
}

TEST(ExecTest, AProcessThatGaveUpNewRightsGetsNone) {
  const Seen seen = execute_with_mode(04755, true);
  EXPECT_EQ(seen.user, 1000);
}

}  // namespace
}  // namespace membrane::linux
