// The contents of the face's handles.
#pragma once

#include <memory>

#include "membrane/membrane.hpp"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane {

struct Policy::State {
  policy::Policy policy;
};

struct Budget::State {
  std::shared_ptr<policy::Budget> budget;
};

}  // namespace membrane
