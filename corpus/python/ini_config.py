import configparser
import io

config = configparser.ConfigParser()
config.read("data/config.ini")

print("Sections:", config.sections())
print("static:", config["web"]["static"])
print("port:", config.getint("web", "port"), "debug:", config.getboolean("web", "debug"))
print("timeouts:", {s: config.getint(s, "timeout") for s in config.sections()})
print("recipients:", [r for r in config["mail"]["recipients"].splitlines() if r])
print("fallback:", config.get("web", "workers", fallback="2"))

try:
    config.get("cache", "size")
except configparser.NoSectionError as e:
    print("error:", e)
try:
    config.getint("database", "url")
except ValueError as e:
    print("error:", e)

config.add_section("cache")
config["cache"]["size"] = "128"
config.remove_option("mail", "enabled")
out = io.StringIO()
config.write(out)
print(out.getvalue().strip())
