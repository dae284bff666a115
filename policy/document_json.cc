#include <algorithm>

#include "base/json.h"
#include "policy/document.h"

namespace membrane::policy {
namespace {

constexpr size_t kMaxKeys = 256;  // per object; bounds the search for duplicates

// Builds the tree from events: unlike nlohmann's own tree it detects a repeated key, and it refuses excessive depth
// before building it.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Node take() { return std::move(root_); }
  [[nodiscard]] const std::string& error() const { return error_; }

  bool null() override { return stop("null has no use in a policy; leave the field out"); }
  bool boolean(bool value) override { return add(Node{value}); }
  bool number_integer(number_integer_t value) override { return add(Node{static_cast<int64_t>(value)}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= INT64_MAX) return add(Node{static_cast<int64_t>(value)});
    return add(Node{static_cast<uint64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Node{static_cast<double>(value)});
  }
  bool string(string_t& value) override { return add(Node{std::move(value)}); }
  bool binary(binary_t&) override { return stop("binary values have no use in a policy"); }
  bool start_object(size_t) override { return open(Node{Table{}}); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Node{Array{}}); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Table& table = std::get<Table>(open_.back()->value);
    if (table.size() >= kMaxKeys)
      return stop("an object has more than " + std::to_string(kMaxKeys) + " keys");
    if (std::any_of(table.begin(), table.end(), [&](const Entry& entry) { return entry.name == name; }))
      return stop("the key \"" + name + "\" is repeated in one object");
    table.push_back({std::move(name), Node{}});
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return stop("malformed JSON at byte " + std::to_string(position));
  }

 private:
  bool stop(std::string why) {
    error_ = std::move(why);
    return false;
  }
  // Where the next value goes. Pointers in open_ stay valid: a container only grows while it is the innermost open
  // one, and then none of its children is open.
  Node* place() {
    if (open_.empty()) return &root_;
    Node& top = *open_.back();
    if (auto* array = std::get_if<Array>(&top.value)) return &array->emplace_back();
    return &std::get<Table>(top.value).back().value;
  }
  bool add(Node value) {
    *place() = std::move(value);
    return true;
  }
  bool open(Node value) {
    if (open_.size() >= kMaxDepth) return stop("the objects are nested too deeply");
    Node* into = place();
    *into = std::move(value);
    open_.push_back(into);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Node root_;
  std::vector<Node*> open_;
  std::string error_;
};

}  // namespace

Result<Node> parse_json(std::string_view text) {
  if (text.size() > kMaxDocumentBytes)
    return fail(ErrorCode::kInvalidInput, "The policy is larger than 1 MiB.");
  Builder builder;
  MEMBRANE_ASSIGN(const bool is_read, visit_json(text, builder, "The policy"));
  if (!is_read) return fail(ErrorCode::kInvalidInput, "The policy is not readable: " + builder.error() + ".");
  Node root = builder.take();
  if (!std::holds_alternative<Table>(root.value))
    return fail(ErrorCode::kInvalidInput, "The policy is not a JSON object.", "write {\"http\": [ … ]}");
  return root;
}

}  // namespace membrane::policy
