// Test helper: finds and reads the official test suite's scripts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::wasm {

// The .wast files of a version of the suite, sorted; empty when it is not here. It is looked for at
// $MEMBRANE_TESTSUITE (the suite, or core-2.0 itself), else beside the source tree.
std::vector<std::filesystem::path> suite_files(std::string_view version = "core-2.0");

std::string read_file(const std::filesystem::path& path);

}  // namespace membrane::wasm
