// Installed languages for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/environment.h"
#include "base/sanitized_testing.h"
#include "lang/package.h"
#include "sandbox/template.h"

namespace membrane::sandbox {

// Where warm images are stored between tests: building a template takes seconds.
inline std::string template_cache() {
  const std::string given = environment_variable("MEMBRANE_TEST_CACHE");
  return given.empty() ? ::testing::TempDir() + "membrane-templates-" + std::to_string(getuid()) : given;
}

// Null when the language is not installed (tools/get-languages), and for Python in builds with sanitizers, where
// compiling it takes minutes.
inline std::shared_ptr<const Template> open_template(const std::string& language,
                                                     engine::Tier tier = engine::Tier::kAuto) {
  auto package = lang::find_package(language);
  if (!package || (kIsSanitized && language == "python")) return nullptr;
  auto opened =
      Template::open(*package, {.cache_directory = template_cache(), .tier = tier, .on_progress = {}});
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

}  // namespace membrane::sandbox
