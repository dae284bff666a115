// A shop lets a model compute the price of an order. The program may ask for prices, and nothing else.
#include <membrane/membrane.hpp>

#include <iostream>
#include <map>

// The program that the model wrote. It knows one function: shop.price, name of a thing -> cents.
constexpr const char* kProgram = R"((import "shop" "price" (func $price (param i32) (result i32)))
(import "io" "print" (func $io.print (param i32)))
(func (export "run") (param $count i32) (result i32)
  (call $io.print (string "three kinds of bread\n"))
  (i32.mul (local.get $count)
    (i32.add (call $price (string "rye"))
      (i32.add (call $price (string "wheat")) (call $price (string "spelt"))))))
)";

int main() {
  const std::map<std::string_view, int32_t> prices = {{"rye", 350}, {"wheat", 280}, {"spelt", 420}};

  membrane::Policy policy;  // grants nothing: no network, no files
  if (auto done = policy.limit("fuel", "100000"); !done) return std::cerr << done.error().message << '\n', 1;

  membrane::Sandbox sandbox(policy);
  auto defined = sandbox.define(
      {"shop",
       "price",
       {{membrane::ValueType::kI32}, {membrane::ValueType::kI32}},
       [&](membrane::HostCall& call) -> std::expected<std::vector<membrane::Value>, std::string> {
         const auto name = call.read_string(std::get<int32_t>(call.arguments()[0]));
         const auto found = prices.find(name.value_or(""));
         if (found == prices.end()) return std::unexpected("there is no such thing in the shop");  // a trap
         return std::vector<membrane::Value>{found->second};
       }});
  if (!defined) return std::cerr << defined.error().message << '\n', 1;

  const membrane::Report report = sandbox.run({.source = kProgram, .arguments = {"2"}});
  if (report.outcome != membrane::Outcome::kOk) return std::cerr << report.to_text(), 1;
  std::cout << report.stdout_text << "cents: " << std::get<int32_t>(*report.results[0].value)
            << ", fuel: " << report.fuel_used << ", calls: " << report.host_calls.size() << '\n';
}
