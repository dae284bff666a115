// Any WASI command that reads code from its standard input. It is started once, and waits for code when it reads and
// no input is available: a turn is what it does from one such read to the next. With the frame "eof" it is started
// for each turn, whose code is all of its input.

#include "sandbox/interpreters.h"

namespace membrane::sandbox {
namespace {

// The export of a command, by the convention of WASI.
constexpr std::string_view kEntry = "_start";

class StdinInterpreter final : public Interpreter {
 public:
  explicit StdinInterpreter(const lang::Package& package) : frame_(package.frame), end_(package.end) {}

  [[nodiscard]] std::optional<Import> import(std::string_view, std::string_view) const override {
    return std::nullopt;
  }

  Result<bool> warm(Calls& calls, const lang::Package& package) override {
    return calls.begin_reading(kEntry, package.init.empty() ? std::string() : framed(package.init));
  }

  [[nodiscard]] bool reads() const override { return !restarts(); }
  [[nodiscard]] bool restarts() const override { return frame_ == lang::Frame::kEof; }
  [[nodiscard]] bool asks() const override { return frame_ == lang::Frame::kDoor; }

  [[nodiscard]] bool turn(Calls& calls, std::string_view code) const override {
    return restarts() ? calls.run_to_end(kEntry, framed(code)) : calls.go_on_reading(framed(code));
  }

 private:
  [[nodiscard]] std::string framed(std::string_view code) const {
    switch (frame_) {
      case lang::Frame::kText:
      case lang::Frame::kEof: return std::string(code) + end_;
      case lang::Frame::kLength: return std::to_string(code.size()) + "\n" + std::string(code);
      case lang::Frame::kDoor: return "\n";
    }
    return {};
  }

  lang::Frame frame_;
  std::string end_;
};

}  // namespace

std::unique_ptr<Interpreter> make_stdin(const lang::Package& package) {
  return std::make_unique<StdinInterpreter>(package);
}

}  // namespace membrane::sandbox
