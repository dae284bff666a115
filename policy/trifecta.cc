#include "policy/trifecta.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace membrane::policy {
namespace {

namespace stdfs = std::filesystem;

// What is read from one place on the host.
struct Source {
  std::string path;
  Marks marks;
  bool comes_back = false;  // runs under the policy may have written it
};

std::vector<Source> sources_of(const Policy& policy) {
  std::vector<Source> sources;
  for (const FsGrant& grant : policy.fs)
    sources.push_back({grant.host, grant.marks, grant.mode == FsMode::kWrite});
  if (policy.kv && !policy.kv->path.empty())
    sources.push_back({policy.kv->path, policy.kv->marks, policy.kv->writable});
  for (const SqlGrant& grant : policy.sql) sources.push_back({grant.path, grant.marks});
  return sources;
}

stdfs::path place(const std::string& path) {
  std::error_code error;
  stdfs::path made = stdfs::absolute(path, error).lexically_normal();
  return made.has_filename() ? made : made.parent_path();
}

bool is_below(const stdfs::path& path, const stdfs::path& above) {
  return std::mismatch(above.begin(), above.end(), path.begin(), path.end()).first == above.end();
}

bool share_a_place(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const stdfs::path a = place(one), b = place(other);
  return is_below(a, b) || is_below(b, a);
}

ReadMarks own_marks(const HttpGrant& grant) {
  return {grant.marks.is_private.value_or(false), grant.marks.is_untrusted.value_or(true)};
}

// The marks of anything that a run can read under the policy.
ReadMarks all_marks(const Policy& policy) {
  ReadMarks all;
  const auto add = [&](bool is_private, bool is_untrusted) {
    all.is_private = all.is_private || is_private;
    all.is_untrusted = all.is_untrusted || is_untrusted;
  };
  for (const HttpGrant& grant : policy.http) add(own_marks(grant).is_private, own_marks(grant).is_untrusted);
  for (const Source& source : sources_of(policy))
    add(source.marks.is_private.value_or(false), source.marks.is_untrusted.value_or(false));
  if (policy.trifecta) add(policy.trifecta->input_is_private, policy.trifecta->input_is_untrusted);
  return all;
}

ReadMarks marks_at(const Policy& policy, const std::string& path) {
  const ReadMarks all = all_marks(policy);
  ReadMarks marks;
  for (const Source& source : sources_of(policy)) {
    if (!share_a_place(source.path, path)) continue;
    marks.is_private =
        marks.is_private || source.marks.is_private.value_or(source.comes_back && all.is_private);
    marks.is_untrusted =
        marks.is_untrusted || source.marks.is_untrusted.value_or(source.comes_back && all.is_untrusted);
  }
  return marks;
}

}  // namespace

ReadMarks marks_of(const Policy& /*policy*/, const HttpGrant& grant) { return own_marks(grant); }
ReadMarks marks_of(const Policy& policy, const FsGrant& grant) { return marks_at(policy, grant.host); }
ReadMarks marks_of(const Policy& policy, const SqlGrant& grant) { return marks_at(policy, grant.path); }
ReadMarks marks_of(const Policy& policy, const KvGrant& grant) {
  // A store that lives only as long as the sandbox holds nothing but what the sandbox knows.
  if (grant.path.empty())
    return {grant.marks.is_private.value_or(false), grant.marks.is_untrusted.value_or(false)};
  return marks_at(policy, grant.path);
}

}  // namespace membrane::policy
