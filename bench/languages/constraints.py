"""Equations in one direction at a time, kept true as values change: a graph of objects, walked and planned again."""


class Variable:
    def __init__(self, value):
        self.value, self.users, self.source, self.mark = value, [], None, 0


class Constraint:
    """`output` is what `function` makes of `inputs`; the stronger of two that could give a variable does."""

    def __init__(self, strength, inputs, output, function):
        self.strength, self.inputs, self.output, self.function = strength, inputs, output, function
        for variable in inputs:
            variable.users.append(self)

    def satisfy(self):
        holder = self.output.source
        if holder is None or holder.strength < self.strength:
            self.output.source = self
            return True
        return False

    def execute(self):
        self.output.value = self.function(*(variable.value for variable in self.inputs))


class Planner:
    def __init__(self):
        self.now = 0

    def plan(self, changed):
        """The constraints that follow from a change, each after those that give its inputs."""
        self.now += 1
        order = []

        def visit(variable):
            if variable.mark == self.now:
                return
            variable.mark = self.now
            for user in variable.users:
                if user.output.source is user:
                    visit(user.output)
            order.append(variable)

        visit(changed)
        return [variable.source for variable in reversed(order) if variable is not changed and variable.source]

    def change(self, variable, value):
        variable.value = value
        for constraint in self.plan(variable):
            constraint.execute()


def chain(length):
    first = last = Variable(0)
    for number in range(length):
        following = Variable(0)
        Constraint(number % 3 + 1, [last], following, lambda value: value + 1).satisfy()
        last = following
    return first, last


def grid(width):
    scale, offset = Variable(2), Variable(7)
    ends = []
    for number in range(width):
        start, end = Variable(number), Variable(0)
        Constraint(1, [start], end, lambda value: -value).satisfy()
        Constraint(2, [start, scale, offset], end, lambda value, by, more: value * by + more).satisfy()
        ends.append(end)
    return scale, offset, ends


planner, total = Planner(), 0
first, last = chain(400)
for value in range(240):
    planner.change(first, value)
    total += last.value
scale, offset, ends = grid(600)
for value in range(240):
    planner.change(scale, value)
    planner.change(offset, 100 - value)
    total += sum(end.value for end in ends) % 1009
print(total)
