#include "wasm/text/suite_testing.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace membrane::wasm {

std::vector<std::filesystem::path> suite_files(std::string_view version) {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* place = std::getenv("MEMBRANE_TESTSUITE")) {
    places = {fs::path(place) / version};
    if (version == "core-2.0") places.emplace_back(place);
  } else {
    places = {fs::path(MEMBRANE_SOURCE_DIR) / "../shared/wasm-testsuite" / version};
  }
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::path& place : places) {
    for (const auto& entry : fs::directory_iterator(place, error))
      if (entry.path().extension() == ".wast") files.push_back(entry.path());
    if (!files.empty()) break;
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace membrane::wasm
