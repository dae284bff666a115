// membrane doctor: what Membrane needs, and whether this machine has it.

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/curl.h"
#include "base/sha256.h"
#include "base/sqlite.h"
#include "base/text.h"
#include "cli/cli.h"
#include "lang/package.h"
#include "linux/image/store.h"
#include "linux/platform/choice.h"
#include "policy/quantity.h"
#include "sandbox/session/language_templates.h"
#include "worker/control_groups.h"
#include "worker/worker.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool json = false;
};

// The control group of the service's workers, which is created here and removed again. Nothing refuses to
// start without it.
Json control_group_here() {
  constexpr uint64_t kSome = 1u << 30;
  const worker::ControlGroups groups =
      worker::ControlGroups::make({.memory_bytes = kSome, .processes = kSome >> 16});
  Json each{{"name", worker::name_of(worker::Wall::kControlGroup)},
            {"stands", groups.missing().empty()},
            {"does", worker::describe(worker::Wall::kControlGroup)}};
  if (!groups.missing().empty()) each["reason"] = groups.missing();
  return each;
}

Json walls_here(bool& all_stand) {
  Json walls = Json::array();
  const auto worker = worker::Worker::start();
  if (!worker) {
    all_stand = false;
    return Json::array({{{"name", "worker"}, {"stands", false}, {"reason", worker.error().to_string()}}});
  }
  const worker::Walls raised = (*worker)->raise_walls({});
  for (size_t i = 0; i < worker::kWallCount; ++i) {
    const auto wall = static_cast<worker::Wall>(i);
    if (wall == worker::Wall::kControlGroup) continue;  // no worker's own
    const auto missing =
        std::ranges::find(raised.missing, worker::name_of(wall), [](const auto& m) { return m.first; });
    Json each{{"name", worker::name_of(wall)},
              {"stands", missing == raised.missing.end()},
              {"does", worker::describe(wall)}};
    if (missing != raised.missing.end()) each["reason"] = missing->second;
    walls.push_back(std::move(each));
  }
  if (!(*worker)->is_alive())
    walls.push_back({{"name", "worker"}, {"stands", false}, {"reason", (*worker)->problem()}});
  all_stand = std::ranges::all_of(walls, [](const Json& wall) { return wall["stands"].get<bool>(); });
  walls.push_back(control_group_here());
  return walls;
}

Json library(const char* name, const char* use, const Status& found) {
  Json out{{"name", name}, {"for", use}, {"found", found.has_value()}};
  if (!found) out["reason"] = found.error().to_string();
  return out;
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(std::unexpected(result.error()));
}

Json libraries_here() {
  return Json::array({library("libcurl", "http grants, models", status_of(curl())),
                      library("libcrypto", "journals, receipts", status_of(sha256_hex(""))),
                      library("libsqlite3", "kv and sql grants, the service", status_of(sqlite::api()))});
}

Json languages_here() {
  Json languages = Json::array();
  for (const lang::Package& package : lang::installed_packages()) {
    const auto image =
        sandbox::Template::image_file(package, sandbox::LanguageTemplates::default_cache_directory());
    std::error_code error;
    languages.push_back({{"name", package.name},
                         {"version", package.version},
                         {"is_warm", image && std::filesystem::exists(*image, error)}});
  }
  return languages;
}

// What Linux programs need (docs/linux.md).
Json linux_here() {
  Json platforms = Json::array(), images = Json::array();
  for (const linux::PlatformDescription& each : linux::describe_platforms()) {
    Json platform{{"name", each.name}, {"usable", each.is_usable}, {"chosen", each.is_chosen}};
    if (each.is_usable) platform["call_us"] = each.call_us;
    else platform["reason"] = each.why_not;
    if (each.is_chosen) platform["reason"] = each.reason;
    platforms.push_back(std::move(platform));
  }
  if (const auto stored = linux::list_images())
    for (const linux::StoredImage& image : *stored)
      images.push_back({{"name", image.name}, {"size_bytes", image.size_bytes}});
  return {{"platforms", platforms}, {"images", images}};
}

Json limits_here() {
  rlimit files{}, processes{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_NPROC, &processes);
  return {{"processors", sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes",
           static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))},
          {"page_bytes", sysconf(_SC_PAGESIZE)},
          {"open_files", files.rlim_cur},
          {"processes", processes.rlim_cur}};
}

Json kernel_here() {
  utsname name{};
  uname(&name);
  std::error_code error;
  return {{"system", std::string(name.sysname) + " " + name.release},
          {"processor", name.machine},
          {"kvm", std::filesystem::exists("/dev/kvm", error)}};
}

std::string text_of(const Json& found) {
  std::string out = found["kernel"]["system"].get<std::string>() + ", " +
                    found["kernel"]["processor"].get<std::string>() + ", " +
                    count_of(found["limits"]["processors"].get<uint64_t>(), "processor") + "\n\nwalls\n";
  const auto line = [&](bool good, const std::string& name, const std::string& words) {
    std::string padded = name;
    padded.resize(std::max<size_t>(padded.size() + 1, 20), ' ');
    out += (good ? "  ok       " : "  missing  ") + padded + words + "\n";
  };
  for (const Json& wall : found["walls"])
    line(wall["stands"], wall["name"],
         wall["stands"].get<bool>() ? wall.value("does", "") : wall.value("reason", ""));
  out += "libraries\n";
  for (const Json& each : found["libraries"])
    line(each["found"], each["name"], each["found"].get<bool>() ? each["for"] : each["reason"]);
  out += "languages\n";
  for (const Json& each : found["languages"])
    line(true, each["name"].get<std::string>() + " " + each["version"].get<std::string>(),
         each["is_warm"].get<bool>() ? "warm"
                                     : "its first program makes its warm image, which takes some seconds");
  if (found["languages"].empty()) out += "  none: membrane languages add python\n";
  out += "linux programs\n";
  for (const Json& each : found["linux"]["platforms"]) {
    std::string words = each.value("reason", "");
    if (each["usable"].get<bool>()) {
      std::array<char, 32> cost{};
      std::snprintf(cost.data(), cost.size(), "%.1f", each["call_us"].get<double>());
      words = std::string("a system call takes ") + cost.data() + " µs" +
              (each["chosen"].get<bool>() ? "; used unless another is demanded: " + words : "");
    }
    line(each["usable"], each["name"], words);
  }
  for (const Json& each : found["linux"]["images"])
    line(true, "image " + each["name"].get<std::string>(), size_text(each["size_bytes"].get<uint64_t>()));
  if (found["linux"]["images"].empty())
    out += "  no image: membrane image import FILE.tar --tag NAME, or make images in the source tree\n";
  out += "limits\n";
  const Json& limits = found["limits"];
  const auto amount = [](const Json& value) {
    return value == RLIM_INFINITY ? std::string("unlimited") : policy::format_count(value);
  };
  out += "  memory             " + size_text(limits["memory_bytes"].get<uint64_t>()) + ", in pages of " +
         policy::format_size(limits["page_bytes"]) + "\n  open files         " +
         amount(limits["open_files"]) + "\n  processes          " + amount(limits["processes"]) + "\n";
  return out;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "doctor",
      "Check what Membrane needs on this machine: walls, libraries, languages, Linux programs, limits");
  command->add_flag("--json", options->json, "As one JSON object");
  command->footer(
      "Example:\n"
      "  membrane doctor\n"
      "Exit codes: 0 all walls stand; 2 one is missing: membrane run works without it, and says nothing;\n"
      "membrane serve refuses to start, unless --accept-missing-wall NAME accepts that. The wall\n"
      "control_group needs root or a delegated group; the service starts even without it.");
  command->callback([options, &exit_code] {
    bool all_stand = false;
    Json found{{"walls", walls_here(all_stand)}};
    found["kernel"] = kernel_here();
    found["libraries"] = libraries_here();
    found["languages"] = languages_here();
    found["linux"] = linux_here();
    found["limits"] = limits_here();
    if (options->json) print_json(found);
    else print(text_of(found));
    exit_code = all_stand ? kExitOk : kExitRequest;
  });
}

}  // namespace membrane::cli
