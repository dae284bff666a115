import yaml

with open("data/deploy.yaml") as f:
    config = yaml.safe_load(f)

for name, service in config["services"].items():
    print(f"{name}: image={service['image']} memory={service['memory']} restart={service['restart']} "
          f"replicas={service.get('replicas', 1)}")

total = sum(s["memory"] * s.get("replicas", 1) for s in config["services"].values())
print("memory in all:", total, "MiB")
print("enabled jobs:", [j["name"] for j in config["jobs"] if j["enabled"]])
print(repr(config["services"]["worker"]["command"]))

config["services"]["cache"] = {"image": "example/cache:7", "ports": [6379]}
del config["defaults"]
print(yaml.safe_dump(config, sort_keys=False, default_flow_style=False))

try:
    yaml.safe_load("key: [1, 2\nother: 3")
except yaml.YAMLError as e:
    print("YAML error at line", e.problem_mark.line + 1)
