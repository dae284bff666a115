from util import median


def test_median():
    assert median([3, 1, 2]) == 2
