#include "computers/layer_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace membrane::computers {
namespace {

TEST(LayerCacheTest, NothingIsPrunedWhileABuildHasItOpen) {
  std::string folder = testing::TempDir() + "images-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("MEMBRANE_IMAGES", folder.c_str(), 1);
  const std::string key(64, 'a');
  {
    const auto building = LayerCache::open().value();
    ASSERT_TRUE(building.add_layer(key).value().keep());
    EXPECT_EQ(LayerCache::open()->prune().error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(building.layer(key));
  }
  EXPECT_EQ(LayerCache::open()->prune()->files, 1u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace membrane::computers
