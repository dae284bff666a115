// System V IPC.
#include <gtest/gtest.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

using Steps = std::vector<std::function<void(ScriptedThread&)>>;
constexpr uint64_t kA = ScriptedKernel::kScratch, kB = kA + 1024;
constexpr uint64_t kKey = 77;
constexpr Credentials kUser = {.uid = 1000,
                               .gid = 100,
                               .euid = 1000,
                               .egid = 100,
                               .suid = 1000,
                               .sgid = 100,
                               .fsuid = 1000,
                               .fsgid = 100};

// The first process forks after `before`; then each performs its own steps and ends.
std::function<void(ScriptedThread&)> parent_and_child(Steps before, Steps parent, Steps child) {
  before.push_back([](ScriptedThread& t) { t.call(SYS_fork); });
  struct State {
    Steps before, parent, child;
    size_t at = 0, parent_at = 0, child_at = 0;
    ScriptedThread* first = nullptr;
  };
  const auto state = std::make_shared<State>(State{std::move(before), std::move(parent), std::move(child)});
  return [state](ScriptedThread& t) {
    State& s = *state;
    if (s.first == nullptr) s.first = &t;
    if (s.at < s.before.size()) return s.before[s.at++](t);
    Steps& own = &t == s.first ? s.parent : s.child;
    size_t& at = &t == s.first ? s.parent_at : s.child_at;
    if (at == own.size()) return t.call(SYS_exit_group, {0});
    own[at++](t);
  };
}

void wait_for_child(ScriptedThread& t) { t.call(SYS_wait4, {UINT64_MAX, 0, 0, 0}); }
void nothing(ScriptedThread& t) { t.call(SYS_getpid); }
uint64_t result_of(const ScriptedThread& t) { return static_cast<uint64_t>(t.result()); }

// -- shared memory

TEST(SharedSegmentTest, IsTheSameMemoryWhereverItIsAttached) {
  ScriptedKernel on;
  uint64_t id = 0, first = 0, second = 0;
  on.run(steps({[](ScriptedThread& t) { t.call(SYS_shmget, {kKey, 5000, IPC_CREAT | 0600}); },
                [&](ScriptedThread& t) {
                  id = result_of(t);
                  t.call(SYS_shmat, {id, 0, 0});
                },
                [&](ScriptedThread& t) {
                  first = result_of(t);
                  t.put(first + 4100, 42);
                  t.call(SYS_shmat, {id, 0x40000123, SHM_RND | SHM_RDONLY});
                },
                [&](ScriptedThread& t) {
                  second = result_of(t);
                  EXPECT_EQ(second, 0x40000000u);
                  EXPECT_EQ(t.get<int>(second + 4100), 42);
                  t.call(SYS_shmctl, {id, IPC_STAT, kA});
                },
                [&](ScriptedThread& t) {
                  const auto status = t.get<shmid_ds>(kA);
                  EXPECT_EQ(status.shm_nattch, 2u);
                  EXPECT_EQ(status.shm_segsz, 5000u);
                  EXPECT_EQ(status.shm_perm.mode, 0600);
                  t.call(SYS_mprotect, {second, kPage, PROT_READ | PROT_WRITE});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EACCES);
                  t.call(SYS_shmdt, {first + kPage});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EINVAL);
                  t.call(SYS_shmdt, {first});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), 0);
                  t.call(SYS_shmdt, {first});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EINVAL);
                  nothing(t);
                }}));
}

// PostgreSQL detects other instances by this number, and removes its segment as soon as it is attached.
TEST(SharedSegmentTest, OneThatWasRemovedLivesAsLongAsItIsAttached) {
  ScriptedKernel on;
  uint64_t id = 0, at = 0;
  on.run(parent_and_child(
      {[](ScriptedThread& t) { t.call(SYS_shmget, {kKey, 100, IPC_CREAT | IPC_EXCL | 0600}); },
       [&](ScriptedThread& t) {
         id = result_of(t);
         t.call(SYS_shmat, {id, 0, 0});
       },
       [&](ScriptedThread& t) {
         at = result_of(t);
         t.call(SYS_shmctl, {id, IPC_RMID, 0});
       }},
      {wait_for_child,
       [&](ScriptedThread& t) {
         EXPECT_EQ(t.get<int>(at), 7);  // the child's
         t.call(SYS_shmctl, {id, IPC_STAT, kA});
       },
       [&](ScriptedThread& t) {
         EXPECT_EQ(t.get<shmid_ds>(kA).shm_nattch, 1u);
         t.call(SYS_shmdt, {at});
       },
       [&](ScriptedThread& t) { t.call(SYS_shmctl, {id, IPC_STAT, kA}); },
       [](ScriptedThread& t) {
         EXPECT_EQ(t.result(), -EINVAL);
         nothing(t);
       }},
      {[&](ScriptedThread& t) { t.call(SYS_shmctl, {id, IPC_STAT, kA}); },
       [&](ScriptedThread& t) {
         const auto status = t.get<shmid_ds>(kA);
         EXPECT_EQ(status.shm_nattch, 2u);
         EXPECT_EQ(status.shm_perm.mode & 01000, 01000);
         t.put(at, 7);
         t.call(SYS_shmget, {kKey, 100, 0600});
       },
       [](ScriptedThread& t) {
         EXPECT_EQ(t.result(), -ENOENT);
         nothing(t);
       }}));
}

TEST(SharedSegmentTest, SizesKeysAndModesAreChecked) {
  ScriptedKernel on;
  const uint64_t beyond = KernelLimits().memory_bytes + 1;
  on.run(steps({[](ScriptedThread& t) { t.call(SYS_shmget, {kKey, 100, IPC_CREAT | 0400}); },
                [](ScriptedThread& t) {
                  EXPECT_GE(t.result(), 0);
                  t.call(SYS_shmget, {kKey, 101, 0});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EINVAL);
                  t.call(SYS_shmget, {kKey, 100, IPC_CREAT | IPC_EXCL | 0600});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EEXIST);
                  t.call(SYS_shmget, {kKey, 100, 0600});
                },
                [beyond](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EACCES);
                  t.call(SYS_shmget, {IPC_PRIVATE, beyond, 0600});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -ENOMEM);
                  t.call(SYS_shmget, {IPC_PRIVATE, 0, 0600});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EINVAL);
                  nothing(t);
                }}),
         kUser);
}

// -- semaphores

void operate(ScriptedThread& t, uint64_t id, std::vector<sembuf> all) {
  for (size_t i = 0; i < all.size(); ++i) t.put(kA + i * sizeof(sembuf), all[i]);
  t.call(SYS_semop, {id, kA, all.size()});
}

TEST(SemaphoreTest, AProcessWaitsForAnother) {
  ScriptedKernel on;
  uint64_t id = 0;
  int64_t waiting = -1, waited = -1;
  on.run(parent_and_child({[](ScriptedThread& t) { t.call(SYS_semget, {IPC_PRIVATE, 2, 0600}); },
                           [&](ScriptedThread& t) {
                             id = result_of(t);
                             nothing(t);
                           }},
                          {nothing, [&](ScriptedThread& t) { t.call(SYS_semctl, {id, 1, GETNCNT}); },
                           [&](ScriptedThread& t) {
                             waiting = t.result();
                             t.call(SYS_semctl, {id, 1, SETVAL, 3});
                           },
                           wait_for_child, [&](ScriptedThread& t) { t.call(SYS_semctl, {id, 1, GETVAL}); },
                           [](ScriptedThread& t) {
                             EXPECT_EQ(t.result(), 1);
                             nothing(t);
                           }},
                          {[&](ScriptedThread& t) { operate(t, id, {{1, -2, 0}}); },
                           [&](ScriptedThread& t) {
                             waited = t.result();
                             nothing(t);
                           }}));
  EXPECT_EQ(waiting, 1);
  EXPECT_EQ(waited, 0);
}

TEST(SemaphoreTest, AllOperationsAreDoneOrNone) {
  ScriptedKernel on;
  uint64_t id = 0;
  on.run(steps({[](ScriptedThread& t) { t.call(SYS_semget, {kKey, 3, IPC_CREAT | 0600}); },
                [&](ScriptedThread& t) {
                  id = result_of(t);
                  operate(t, id, {{0, 5, 0}, {1, 2, SEM_UNDO}, {2, -1, IPC_NOWAIT}});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  t.call(SYS_semctl, {id, 0, GETALL, kB});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ((t.get<std::array<uint16_t, 3>>(kB)), (std::array<uint16_t, 3>{0, 0, 0}));
                  operate(t, id, {{0, 32767, 0}, {0, 1, 0}});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -ERANGE);
                  operate(t, id, {{3, 1, 0}});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EFBIG);
                  t.put(kB, timespec{0, 1'000'000});
                  t.put(kA, sembuf{0, -1, 0});
                  t.call(SYS_semtimedop, {id, kA, 1, kB});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  nothing(t);
                }}));
}

TEST(SemaphoreTest, WhatAProcessHasDoneIsUndoneAtItsEnd) {
  ScriptedKernel on;
  uint64_t id = 0;
  on.run(parent_and_child({[](ScriptedThread& t) { t.call(SYS_semget, {IPC_PRIVATE, 1, 0600}); },
                           [&](ScriptedThread& t) {
                             id = result_of(t);
                             operate(t, id, {{0, 1, 0}});
                           }},
                          {wait_for_child, [&](ScriptedThread& t) { t.call(SYS_semctl, {id, 0, GETVAL}); },
                           [](ScriptedThread& t) {
                             EXPECT_EQ(t.result(), 1);
                             nothing(t);
                           }},
                          {[&](ScriptedThread& t) { operate(t, id, {{0, -1, SEM_UNDO}}); },
                           [](ScriptedThread& t) {
                             EXPECT_EQ(t.result(), 0);
                             nothing(t);
                           }}));
}

// Ids are reused: leftovers of one set would be applied to another.
TEST(SemaphoreTest, WhatIsToBeUndoneIsForgottenWithItsSet) {
  ScriptedKernel on;
  uint64_t id = 0;
  on.run(steps({[](ScriptedThread& t) { t.call(SYS_semget, {IPC_PRIVATE, 40, 0600}); },
                [&](ScriptedThread& t) {
                  id = result_of(t);
                  operate(t, id, {{39, 1, SEM_UNDO}});
                },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), 0);
                  EXPECT_FALSE(static_cast<Task*>(t.owner)->process->semaphore_undo.empty());
                  t.call(SYS_semctl, {id, 0, IPC_RMID});
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), 0);
                  EXPECT_TRUE(static_cast<Task*>(t.owner)->process->semaphore_undo.empty());
                  nothing(t);
                }}));
}

TEST(SemaphoreTest, WhoWaitsIsToldThatTheSetIsGone) {
  ScriptedKernel on;
  uint64_t id = 0;
  int64_t waited = 0;
  on.run(parent_and_child(
      {[](ScriptedThread& t) { t.call(SYS_semget, {IPC_PRIVATE, 1, 0600}); },
       [&](ScriptedThread& t) {
         id = result_of(t);
         nothing(t);
       }},
      {nothing, [&](ScriptedThread& t) { t.call(SYS_semctl, {id, 0, IPC_RMID}); }, wait_for_child},
      {[&](ScriptedThread& t) { operate(t, id, {{0, -1, 0}}); },
       [&](ScriptedThread& t) {
         waited = t.result();
         nothing(t);
       }}));
  EXPECT_EQ(waited, -EIDRM);
}

// -- messages

struct Message {
  int64_t type = 0;
  std::array<char, 8> text = {};
};
void send(ScriptedThread& t, uint64_t id, int64_t type, char text) {
  t.put(kA, Message{type, {text}});
  t.call(SYS_msgsnd, {id, kA, 8, IPC_NOWAIT});
}
void receive(ScriptedThread& t, uint64_t id, int64_t type, int flags) {
  t.call(SYS_msgrcv, {id, kB, 8, static_cast<uint64_t>(type), static_cast<uint64_t>(flags)});
}

TEST(MessageQueueTest, MessagesAreChosenByType) {
  ScriptedKernel on;
  uint64_t id = 0;
  std::string got;
  const auto take = [&](int64_t type, int flags) {
    return [&got, &id, type, flags](ScriptedThread& t) {
      if (t.result() == 8) got += t.get<Message>(kB).text[0];
      receive(t, id, type, flags);
    };
  };
  on.run(
      steps({[](ScriptedThread& t) { t.call(SYS_msgget, {kKey, IPC_CREAT | 0600}); },
             [&](ScriptedThread& t) {
               id = result_of(t);
               send(t, id, 5, 'a');
             },
             [&](ScriptedThread& t) { send(t, id, 3, 'b'); }, [&](ScriptedThread& t) { send(t, id, 4, 'c'); },
             [&](ScriptedThread& t) { send(t, id, 5, 'd'); }, [&](ScriptedThread& t) { send(t, id, 0, 'x'); },
             [&](ScriptedThread& t) {
               EXPECT_EQ(t.result(), -EINVAL);
               receive(t, id, 4, 0);
             },
             take(-4, 0), take(5, 020000 | IPC_NOWAIT),
             [&](ScriptedThread& t) {
               EXPECT_EQ(t.result(), -ENOMSG);
               t.call(SYS_msgrcv, {id, kB, 0, 0, 0});
             },
             [&](ScriptedThread& t) {
               EXPECT_EQ(t.result(), -E2BIG);
               receive(t, id, 0, 0);
             },
             take(0, 0), take(0, IPC_NOWAIT), nothing}));
  EXPECT_EQ(got, "cbad");
}

TEST(MessageQueueTest, AFullQueueWaitsForAReader) {
  ScriptedKernel on;
  uint64_t id = 0;
  int64_t sent = -1;
  on.run(parent_and_child({[](ScriptedThread& t) { t.call(SYS_msgget, {IPC_PRIVATE, 0600}); },
                           [&](ScriptedThread& t) {
                             id = result_of(t);
                             t.put(kA, int64_t{1});
                             t.call(SYS_msgsnd, {id, kA, 8192, 0});
                           },
                           [&](ScriptedThread& t) { t.call(SYS_msgsnd, {id, kA, 8192, 0}); }},
                          {nothing,
                           [&](ScriptedThread& t) {
                             EXPECT_EQ(sent, -1);
                             t.call(SYS_msgrcv, {id, kB, 8192, 0, 0});
                           },
                           wait_for_child},
                          {[&](ScriptedThread& t) { t.call(SYS_msgsnd, {id, kA, 1, 0}); },
                           [&](ScriptedThread& t) {
                             sent = t.result();
                             nothing(t);
                           }}));
  EXPECT_EQ(sent, 0);
}

}  // namespace
}  // namespace membrane::linux
