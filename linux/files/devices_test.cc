#include "linux/files/devices.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

TEST(Devices, OpensTheOnesThatEveryProgramExpects) {
  FakeCaller caller;
  const Devices devices;
  const NodeRef node = make_anonymous_node(AnonymousDevice::kOthers, S_IFCHR | 0666);
  const auto open = [&](uint64_t number) { return devices.open(number, caller, node, O_RDWR).value(); };
  EXPECT_EQ(read_text(*open(kNullDevice), caller), "");
  EXPECT_EQ(write_text(*open(kNullDevice), caller, "abc").value(), 3u);
  EXPECT_EQ(read_text(*open(kZeroDevice), caller, 5000), std::string(5000, '\0'));
  EXPECT_EQ(write_text(*open(kFullDevice), caller, "abc").error(), ENOSPC);
  EXPECT_EQ(read_text(*open(kFullDevice), caller, 2), std::string(2, '\0'));
  EXPECT_NE(read_text(*open(kUrandomDevice), caller, 32), read_text(*open(kRandomDevice), caller, 32));
  EXPECT_EQ(open(kNullDevice)->mapping(0, 4096, false, PROT_READ).error(), ENODEV);
  EXPECT_EQ(open(kZeroDevice)->mapping(0, 4096, false, PROT_READ)->fd, -1);
}

TEST(Devices, RefusesNumbersThatItDoesNotKnow) {
  FakeCaller caller;
  EXPECT_EQ(Devices().open(device_number(8, 0), caller, nullptr, O_RDWR).error(), ENXIO);
}

TEST(Devices, OpensTheControllingTerminalOfThoseWhoHaveOne) {
  FakeCaller caller;
  EXPECT_EQ(Devices().open(kTtyDevice, caller, nullptr, O_RDWR).error(), ENXIO);
}

}  // namespace
}  // namespace membrane::linux
