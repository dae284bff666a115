// A price that is not known yet: the program waits for it as bytes, and is resumed with the answer.
#include <membrane/membrane.hpp>

#include <iostream>

using namespace membrane;

constexpr const char* kProgram = R"((import "shop" "price" (func $price (param i32) (result f64)))
(func (export "run") (result f64) (f64.mul (f64.const 2) (call $price (string "tea"))))
)";

// The bytes do not contain functions: each process that runs or resumes defines them.
Sandbox shop() {
  Sandbox sandbox{Policy()};
  const auto price = [](HostCall& call) -> HostResults {
    call.answer_later(std::string(call.read_string(std::get<int32_t>(call.arguments()[0])).value_or("")));
    return {};  // does not count
  };
  if (auto done = sandbox.define({"shop", "price", {{ValueType::kI32}, {ValueType::kF64}}, price}); !done)
    std::cerr << done.error().message << '\n';
  return sandbox;
}

int main() {
  const Report waiting = shop().run({.source = kProgram});
  if (waiting.outcome != Outcome::kWaiting) return std::cerr << waiting.to_text(), 1;
  std::cout << waiting.waits_for[0].name << " of " << waiting.waits_for[0].note << "?\n";

  // With waiting.snapshot, in this process or another, now or tomorrow. std::unexpected("sold out") would trap.
  const Report end = shop().resume(waiting.snapshot, std::vector<Value>{3.5});
  if (end.outcome != Outcome::kOk) return std::cerr << end.to_text(), 1;
  std::cout << std::get<double>(*end.results[0].value) << '\n';
}
