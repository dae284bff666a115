# Run as a program by _install.py.
