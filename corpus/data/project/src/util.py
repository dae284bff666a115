def median(values):
    """The middle value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def to_level(height, distance):
    return height - distance  # in centimetres


class Smoother:
    def __init__(self, size=5):
        self.size = size
        self.values = []

    def add(self, value):
        self.values = (self.values + [value])[-self.size:]
        return median(self.values)
