import hashlib
import unittest

from membrane import _hashes


class Pbkdf2(unittest.TestCase):
    def test_it_is_the_one_of_openssl(self):
        for name in "sha1", "sha256", "sha512":
            for length in None, 1, 20, 65:
                with self.subTest(name=name, length=length):
                    arguments = name, b"password", b"salt", 7, length
                    self.assertEqual(_hashes.pbkdf2_hmac(*arguments), hashlib.pbkdf2_hmac(*arguments))

    def test_what_makes_no_key_is_refused(self):
        for arguments in (("sha256", b"p", b"s", 0), ("sha256", b"p", b"s", 1, 0), ("nosuch", b"p", b"s", 1)):
            with self.assertRaises(ValueError):
                _hashes.pbkdf2_hmac(*arguments)
