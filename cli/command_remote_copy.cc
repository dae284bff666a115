// Commands for a service: cp.

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "base/terminal.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/out_directory.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMostFileBytes = 64u << 20;  // as the service's own limit
constexpr uint64_t kMostTreeBytes = 1u << 30;   // received from a service at once
constexpr size_t kMostEntries = 10'000;         // of a copied directory

struct CopyOptions {
  RemoteOptions remote;
  std::string from, to, context;
  bool is_recursive = false;
};

struct Place {
  std::string sandbox;  // "": on this machine
  std::string path;
};

// "ID:/path" is in a sandbox.
Place place_of(const std::string& word) {
  const size_t at = word.find(":/");
  if (at == std::string::npos || at == 0 || word.find('/') < at) return {"", word};
  return {word.substr(0, at), word.substr(at + 1)};
}

// "sbx…:data.csv": meant for a sandbox, where every path is absolute.
Status check_absolute(const std::string& word) {
  const size_t at = word.find(':');
  if (at == std::string::npos || !word.starts_with("sbx") || word.find('/') < at || word[at + 1] == '/')
    return {};
  return fail(ErrorCode::kInvalidArgument, "the path in the sandbox is not absolute: " + word,
              "Start it with /: " + word.substr(0, at) + ":/tmp/" + word.substr(at + 1));
}

RemoteRequest of_files(const Place& place, const CopyOptions& options, std::vector<std::string> rest = {}) {
  rest.insert(rest.begin(), "files");
  RemoteRequest request{.path = of_sandbox(place.sandbox, std::move(rest)), .query = {{"path", place.path}}};
  if (!options.context.empty()) request.query.emplace_back("context", options.context);
  return request;
}

std::unexpected<Error> is_directory_error(const std::string& word) {
  return fail(ErrorCode::kInvalidArgument, word + " is a directory",
              "Use cp -r to copy it with everything below it.");
}

// The last name of a path; "" of "/".
std::string last_name(const std::filesystem::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool keeps_name(const Place& to) {
  return to.path.ends_with('/') || (to.sandbox.empty() && is_directory(to.path));
}

// -- one file

// Whether its files have permissions and links.
Result<bool> is_linux(Remote& remote, const Place& place) {
  MEMBRANE_ASSIGN(const Json sandbox, remote.send_json({.path = of_sandbox(place.sandbox)}));
  return is_linux_template(text_at(sandbox, "template"));
}

bool is_executable(std::filesystem::perms mode) {
  return (mode & std::filesystem::perms::owner_exec) != std::filesystem::perms::none;
}

Status put_link(Remote& remote, const CopyOptions& options, const Place& to, const std::string& from) {
  std::error_code error;
  RemoteRequest request = of_files(to, options);
  request.method = "PUT";
  request.query.emplace_back("link_to", std::filesystem::read_symlink(from, error).string());
  if (error) return fail(ErrorCode::kUnavailable, from + " cannot be read: " + error.message());
  MEMBRANE_TRY(remote.send(request));
  return {};
}

Status put_file(Remote& remote, const CopyOptions& options, const Place& to, const std::string& from,
                bool has_modes) {
  RemoteRequest request = of_files(to, options);
  request.method = "PUT";
  std::error_code error;
  if (has_modes && from != "-")
    request.query.emplace_back(
        "mode", is_executable(std::filesystem::status(from, error).permissions()) ? "755" : "644");
  MEMBRANE_ASSIGN(request.body, read_input(from, kMostFileBytes));
  request.content_type = "application/octet-stream";
  MEMBRANE_TRY(remote.send(request));
  return {};
}

Result<int> copy_to(Remote& remote, const CopyOptions& options, const Place& from, Place to) {
  if (keeps_name(to)) to.path += std::filesystem::path(from.path).filename().string();
  MEMBRANE_ASSIGN(const bool has_modes, is_linux(remote, to));
  MEMBRANE_TRY(put_file(remote, options, to, from.path, has_modes));
  return kExitOk;
}

// Applies the service's metadata of a file to its owner's copy.
bool is_executable(const Json& fact) {
  const std::string mode = text_at(fact, "mode");  // "0755"
  constexpr size_t kDigits = 4, kOwners = 1;
  return mode.size() == kDigits && ((mode[kOwners] - '0') & 1) != 0;
}

// The type of what a path of a sandbox names: "file", "directory", …
Result<std::string> kind_of(Remote& remote, const CopyOptions& options, const Place& place) {
  MEMBRANE_ASSIGN(const Json fact, remote.send_json(of_files(place, options, {"stat"})));
  return text_at(fact, "type");
}

// A new file becomes executable if the sandbox's is.
void let_run(Remote& remote, const CopyOptions& options, const Place& from, const std::string& path) {
  namespace fs = std::filesystem;
  const auto fact = remote.send_json(of_files(from, options, {"stat"}));
  if (!fact || !is_executable(*fact)) return;
  std::error_code error;
  const fs::perms mode = fs::status(path, error).permissions();
  const fs::perms read = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  fs::permissions(path, fs::perms(static_cast<unsigned>(mode & read) >> 2U), fs::perm_options::add, error);
}

Result<int> copy_from(Remote& remote, const CopyOptions& options, const Place& from, Place to) {
  const auto bytes = remote.send(of_files(from, options));
  if (!bytes) {
    const auto kind = kind_of(remote, options, from);
    if (kind && *kind == "directory") return is_directory_error(options.from);
    return std::unexpected(bytes.error());
  }
  if (to.path == "-") {
    print(stdout, *bytes);
    return kExitOk;
  }
  if (keeps_name(to))
    to.path = (std::filesystem::path(to.path) / std::filesystem::path(from.path).filename()).string();
  MEMBRANE_TRY(write_output(to.path, *bytes));
  let_run(remote, options, from, to.path);
  return kExitOk;
}

// -- a directory

struct Entry {
  std::string below;  // "plots/a.png"
  bool is_directory = false, is_link = false, is_executable = false;
  std::string target = {};  // target of a link there
};

void leave_out(const std::string& path, const std::string& why = "is neither a file nor a directory") {
  print(stderr, "membrane: " + printable_line(path) + " " + why + ", and is skipped\n");
}

std::unexpected<Error> too_many(const std::string& directory) {
  return fail(ErrorCode::kExhausted,
              directory + " has more than " + std::to_string(kMostEntries) + " files and directories",
              "Copy it in parts, directory by directory.");
}

// Everything below a directory of this machine, directories before their contents. Links are not followed.
Result<std::vector<Entry>> entries_here(const std::string& directory, bool has_links) {
  std::vector<Entry> entries;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    const auto type = at->symlink_status(error).type();
    if (error) break;
    const bool is_link = has_links && type == std::filesystem::file_type::symlink;
    if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::directory &&
        !is_link) {
      leave_out(at->path().string());
      continue;
    }
    if (entries.size() == kMostEntries) return too_many(directory);
    entries.push_back({.below = at->path().lexically_relative(directory).string(),
                       .is_directory = type == std::filesystem::file_type::directory,
                       .is_link = is_link});
  }
  if (error) return fail(ErrorCode::kUnavailable, directory + " cannot be read: " + error.message());
  std::ranges::sort(entries, {}, &Entry::below);
  return entries;
}

Status make_directory(Remote& remote, const CopyOptions& options, const Place& place) {
  Json spec = {{"path", place.path}};
  if (!options.context.empty()) spec["context"] = options.context;
  MEMBRANE_TRY(remote.send(json_request("POST", of_sandbox(place.sandbox, {"files", "mkdir"}), spec)));
  return {};
}

Result<int> copy_tree_to(Remote& remote, const CopyOptions& options, const Place& from, Place to) {
  MEMBRANE_ASSIGN(const bool has_modes, is_linux(remote, to));
  MEMBRANE_ASSIGN(const std::vector<Entry> entries, entries_here(from.path, has_modes));
  std::error_code error;
  if (keeps_name(to)) to.path += last_name(std::filesystem::canonical(from.path, error));
  while (to.path.ends_with('/')) to.path.pop_back();
  if (!to.path.empty()) MEMBRANE_TRY(make_directory(remote, options, to));
  for (const Entry& entry : entries) {
    const Place place{to.sandbox, to.path + "/" + entry.below};
    if (entry.is_directory) MEMBRANE_TRY(make_directory(remote, options, place));
    else if (entry.is_link) MEMBRANE_TRY(put_link(remote, options, place, from.path + "/" + entry.below));
    else MEMBRANE_TRY(put_file(remote, options, place, from.path + "/" + entry.below, has_modes));
  }
  return kExitOk;
}

// The path relative to `directory`, from the service's list; "" for a path that is elsewhere, or leads out of
// it.
std::string path_below(const std::string& directory, const std::string& path) {
  const std::string base = directory == "/" ? directory : directory + "/";
  if (!path.starts_with(base) || path.find('\0') != std::string::npos) return "";
  std::string below = path.substr(base.size());
  for (const auto part : std::views::split(below, '/')) {
    const std::string_view name(part.begin(), part.end());
    if (name.empty() || name == "." || name == "..") return "";
  }
  return below;
}

Result<std::vector<Entry>> entries_there(Remote& remote, const CopyOptions& options, const Place& from) {
  RemoteRequest request = of_files(from, options, {"list"});
  request.query.emplace_back("recursive", "true");
  MEMBRANE_ASSIGN(const Json answer, remote.send_json(request));
  std::vector<Entry> entries;
  for (const Json& each : list_at(answer, "files")) {
    const std::string path = text_at(each, "path"), type = text_at(each, "type");
    const std::string below = path_below(from.path, path);
    if (below.empty())
      return fail(ErrorCode::kDenied,
                  "the service names a file that is not below " + from.path + ": " + printable_line(path),
                  "Nothing was written.");
    const std::string target = type == "link" ? text_at(each, "target") : "";
    if (type != "file" && type != "directory" && target.empty()) {
      leave_out(path);
      continue;
    }
    if (entries.size() == kMostEntries) return too_many(options.from);
    entries.push_back({.below = below,
                       .is_directory = type == "directory",
                       .is_link = !target.empty(),
                       .is_executable = is_executable(each),
                       .target = target});
  }
  return entries;
}

Result<int> copy_tree_from(Remote& remote, const CopyOptions& options, Place from, const Place& to) {
  // As the service will name everything below: without "..", and without a trailing slash.
  from.path = std::filesystem::path(from.path).lexically_normal().string();
  if (from.path.size() > 1 && from.path.ends_with('/')) from.path.pop_back();
  MEMBRANE_ASSIGN(const std::vector<Entry> entries, entries_there(remote, options, from));
  std::string name = keeps_name(to) ? last_name(from.path) : "";
  if (!name.empty()) name += "/";
  MEMBRANE_ASSIGN(OutDirectory out, OutDirectory::open(to.path));
  out.keep_directory(name);
  uint64_t left = kMostTreeBytes;
  for (const Entry& entry : entries) {
    if (entry.is_directory) {
      out.keep_directory(name + entry.below);
    } else if (entry.is_link) {
      if (!out.keep_link(name + entry.below, entry.target, name))
        leave_out(from.path + "/" + entry.below, "is a link that leads elsewhere");
    } else {
      const Place file{from.sandbox, from.path + "/" + entry.below};
      MEMBRANE_ASSIGN(const std::string bytes, remote.send(of_files(file, options)));
      if (bytes.size() > left)
        return fail(ErrorCode::kExhausted,
                    options.from + " has more than " + std::to_string(kMostTreeBytes >> 20) + " MiB",
                    "Copy it in parts, directory by directory.");
      left -= bytes.size();
      out.keep(name + entry.below, bytes, entry.is_executable);
    }
    MEMBRANE_TRY(out.status());
  }
  MEMBRANE_TRY(out.status());
  return kExitOk;
}

Result<int> copy(const CopyOptions& options) {
  for (const std::string& word : {options.from, options.to}) MEMBRANE_TRY(check_absolute(word));
  const Place from = place_of(options.from), to = place_of(options.to);
  if (from.sandbox.empty() == to.sandbox.empty())
    return fail(ErrorCode::kInvalidArgument,
                "one of the two places is in a sandbox, and the other on this machine",
                "Write it as membrane cp data.csv ID:/tmp/ or membrane cp ID:/tmp/data.csv .");
  const bool is_up = from.sandbox.empty();
  if (is_up && is_directory(from.path) && !options.is_recursive) return is_directory_error(options.from);
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  bool is_tree = options.is_recursive && is_up && is_directory(from.path);
  if (options.is_recursive && !is_up) {
    MEMBRANE_ASSIGN(const std::string kind, kind_of(remote, options, from));
    is_tree = kind == "directory";
  }
  if (is_tree && to.path == "-")
    return fail(ErrorCode::kInvalidArgument, options.from + " is a directory, which cannot be printed",
                "Name a directory to copy it into.");
  if (is_tree)
    return is_up ? copy_tree_to(remote, options, from, to) : copy_tree_from(remote, options, from, to);
  return is_up ? copy_to(remote, options, from, to) : copy_from(remote, options, from, to);
}

}  // namespace

void add_remote_copy(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("cp", "Copy a file or a directory into a sandbox of a service, or out of one");
  const auto options = std::make_shared<CopyOptions>();
  command->add_option("from", options->from, "A file or directory, or ID:/path of one in a sandbox")
      ->required()
      ->type_name("FROM");
  command
      ->add_option("to", options->to,
                   "The same; - prints a file, and TO/ keeps the name, as a directory of this machine does")
      ->required()
      ->type_name("TO");
  command->add_flag("-r,--recursive", options->is_recursive,
                    "Copy a directory with everything below it; links only in Linux sandboxes");
  command->add_option("--context", options->context, "The context whose files to use")->type_name("ID");
  options->remote.add_to(*command);
  command->footer(
      "In a Linux sandbox, what is executable here is there, too, and links are links; of those that come "
      "back, "
      "one that leads out of the directory is left out. Files of other sandboxes have no modes and no "
      "links.\n\n"
      "Examples:\n  membrane cp data.csv $ID:/tmp/\n  membrane cp $ID:/tmp/data.csv copy.csv\n"
      "  membrane cp -r src $ID:/tmp/src\n  membrane cp -r $ID:/tmp/src copy");
  command->callback([options, &exit_code] { exit_code = finish(copy(*options)); });
}

}  // namespace membrane::cli
