// Files for a program without WASI functions, through calls that its host makes.
#include "wasi/file_calls.h"

#include <gtest/gtest.h>

#include "wasi/host_world_testing.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

using policy::FsMode;

std::vector<std::string> names(FileCalls& files, std::string_view path) {
  std::vector<std::string> found;
  const auto entries = files.list(path, UINT64_MAX);
  EXPECT_TRUE(entries);
  if (entries)
    for (const FileCalls::Entry& entry : *entries)
      found.push_back(entry.name + (entry.type == FileType::kDirectory ? "/" : ""));
  return found;
}

std::string get(FileCalls& files, std::string_view path) {
  const auto opened = files.open(path, {});
  if (!opened) return std::string(name_of(opened.error()));
  const auto bytes = files.read(*opened, 4096, std::nullopt);
  EXPECT_TRUE(files.close(*opened));
  return bytes ? *bytes : std::string(name_of(bytes.error()));
}

Errno put(FileCalls& files, std::string_view path, std::string_view bytes, FileCalls::Opening how = {}) {
  how.write = how.create = true;
  const auto opened = files.open(path, how);
  if (!opened) return opened.error();
  const auto written = files.write(*opened, bytes, std::nullopt);
  EXPECT_TRUE(files.close(*opened));
  return written ? Errno::kSuccess : written.error();
}

TEST(WasiFileCalls, DoWhatAProgramsOwnDo) {
  Program program;
  FileCalls files(*program.system, program.guest);
  EXPECT_TRUE(files.make_directory("/d"));
  EXPECT_EQ(files.make_directory("/d").error(), Errno::kExist);
  EXPECT_EQ(put(files, "/d/x", "hello"), Errno::kSuccess);
  EXPECT_EQ(put(files, "/d/x", "!", {.append = true}), Errno::kSuccess);
  EXPECT_EQ(put(files, "/d/x", "", {.exclusive = true}), Errno::kExist);
  EXPECT_EQ(get(files, "//d/../d/x"), "hello!");
  EXPECT_EQ(program.get("d/x"), "hello!") << "they are the same files";
  EXPECT_TRUE(files.link("/d/x", "/d/y"));
  EXPECT_TRUE(files.symlink("x", "/d/l"));
  EXPECT_EQ(files.read_link("/d/l").value(), "x");
  EXPECT_EQ(files.stat("/d/l", true)->size, 6u);
  EXPECT_EQ(files.stat("/d/l", false)->type, FileType::kSymbolicLink);
  EXPECT_EQ(files.stat("/d/x", true)->links, 2u);
  EXPECT_EQ(names(files, "/d"), (std::vector<std::string>{"l", "x", "y"}));
  EXPECT_TRUE(files.rename("/d/y", "/z"));
  EXPECT_TRUE(files.unlink("/d/l"));
  EXPECT_EQ(files.remove_directory("/d").error(), Errno::kNotempty);
  EXPECT_TRUE(files.set_times("/z", 5, 7));
  EXPECT_EQ(files.stat("/z", true)->modified_ns, 7u);
  const auto opened = files.open("/z", {.write = true});
  ASSERT_TRUE(opened);
  EXPECT_EQ(files.write(*opened, "E", 1).value(), 1u);
  EXPECT_EQ(files.read(*opened, 3, 0).value(), "hEl");
  EXPECT_TRUE(files.resize(*opened, 2));
  EXPECT_EQ(files.stat(*opened)->size, 2u);
  EXPECT_TRUE(files.close(*opened));
  EXPECT_EQ(files.read(*opened, 1, std::nullopt).error(), Errno::kBadf);
  EXPECT_EQ(program.system->state().files->broken_invariant({}), "");
}

TEST(WasiFileCalls, ListAsManyNamesAsThereAre) {
  Program program;
  FileCalls files(*program.system, program.guest);
  std::vector<std::string> made;
  for (int i = 0; i < 1500; ++i) {
    made.push_back("a file with a long name, so that they need more than one call " +
                   std::to_string(1000 + i));
    ASSERT_EQ(put(files, "/" + made.back(), ""), Errno::kSuccess);
  }
  std::vector<std::string> found = names(files, "/");
  std::erase_if(found, [](const std::string& name) { return name.ends_with('/'); });
  EXPECT_EQ(found, made);
  EXPECT_EQ(files.list("/", 1000).error(), Errno::kFbig);
  EXPECT_EQ(files.list("/" + made[0], UINT64_MAX).error(), Errno::kNotdir);
  EXPECT_EQ(program.system->state().descriptors.all().size(), 4u) << "nothing stays open";
}

TEST(WasiFileCalls, KeepToGrantsAndPayForThem) {
  HostWorld world;
  world.allow("/in", "inside", FsMode::kRead);
  world.put("inside/x", "given");
  Program program(world.config());
  FileCalls files(*program.system, program.guest);
  const uint64_t before = program.guest.fuel;
  EXPECT_EQ(get(files, "/in/x"), "given");
  EXPECT_GT(before - program.guest.fuel, 2 * kWorldFuel);
  EXPECT_EQ(put(files, "/in/x", "changed"), Errno::kRofs);
  ASSERT_NE(program.system->last_denial(), nullptr);
  EXPECT_EQ(get(files, "/in/../../outside/secret"), "ENOTCAPABLE");
  EXPECT_EQ(get(files, "/outside/secret"), "ENOENT");
  EXPECT_EQ(program.system->last_denial()->grant, "--allow fs:read:HOST_DIRECTORY:/outside");
  EXPECT_FALSE(world.journal.entries().empty());
  EXPECT_TRUE(world.is_outside_untouched());
}

TEST(WasiFileCalls, RefuseWhatIsNotForPrograms) {
  Program program;
  FileCalls files(*program.system, program.guest);
  for (const char* const path : {"/dev/membrane", "/dev/./membrane"})
    EXPECT_EQ(files.open(path, {.write = true}).error(), Errno::kNxio);
  EXPECT_TRUE(files.symlink("/dev/membrane", "/door"));
  EXPECT_EQ(files.open("/door", {.write = true}).error(), Errno::kNxio);
  EXPECT_EQ(program.system->state().descriptors.all().size(), 4u);
  EXPECT_EQ(files.close(3).error(), Errno::kBadf);
  EXPECT_EQ(files.read(3, 1, std::nullopt).error(), Errno::kBadf);
  EXPECT_EQ(files.resize(3, 0).error(), Errno::kBadf);
  EXPECT_EQ(files.stat(3).error(), Errno::kBadf);
  EXPECT_EQ(files.read(UINT32_MAX, 1, std::nullopt).error(), Errno::kBadf);
}

TEST(WasiFileCalls, HostilePathsAreErrors) {
  Program program;
  FileCalls files(*program.system, program.guest);
  EXPECT_EQ(files.open(std::string(100'000, 'a'), {}).error(), Errno::kNametoolong);
  EXPECT_EQ(files.open(std::string("/a\0b", 4), {.write = true, .create = true}).error(), Errno::kInval);
  EXPECT_EQ(files.open("/\xff", {.write = true, .create = true}).error(), Errno::kIlseq);
  EXPECT_EQ(files.open("/../../etc/passwd", {}).error(), Errno::kNotcapable);
  EXPECT_EQ(files.open("", {}).error(), Errno::kNoent);
  EXPECT_EQ(files.stat("///", true)->type, FileType::kDirectory);
  EXPECT_EQ(files.symlink(std::string(100'000, 'a'), "/l").error(), Errno::kNametoolong);
  EXPECT_EQ(files.rename("/", "/x").error(), Errno::kBusy);
  EXPECT_EQ(files.unlink("/").error(), Errno::kIsdir);
  EXPECT_EQ(files.write(1, "to stdout", std::nullopt).value(), 9u);
  EXPECT_EQ(program.guest.stdout_text, "to stdout");
}

TEST(WasiFileCalls, WithoutFuelNothingIsDone) {
  Program program;
  FileCalls files(*program.system, program.guest);
  program.guest.fuel = kCallFuel - 1;
  EXPECT_FALSE(files.make_directory("/d"));
  EXPECT_EQ(files.end(), End::kOutOfFuel);
  program.guest.fuel = 1'000'000;
  EXPECT_EQ(files.stat("/d", true).error(), Errno::kNoent);
  EXPECT_EQ(files.end(), End::kReturn);
  // An interrupted listing leaves nothing open.
  for (uint64_t fuel = 0; fuel < 200; fuel += 5) {
    program.guest.fuel = fuel;
    (void)files.list("/", UINT64_MAX);
    EXPECT_EQ(program.system->state().descriptors.all().size(), 4u) << fuel;
  }
}

}  // namespace
}  // namespace membrane::wasi
