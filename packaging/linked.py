"""What is linked into toolgate for a target, by `cargo metadata`: neither what tests use nor what runs while it is built."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def packages(target):
    """The packages in the program by their ids, the ids of those that each uses, and the id of toolgate."""
    run = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    known = {package["id"]: package for package in metadata["packages"]}
    root = next(id for id, package in known.items() if package["name"] == "toolgate")
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {id for id, package in known.items() if any("proc-macro" in target["kind"] for target in package["targets"])}
    uses, left = {}, [root]
    while left:
        one = left.pop()
        if one in uses:
            continue
        used = [
            dependency["pkg"]
            for dependency in nodes[one]["deps"]
            if dependency["pkg"] not in macros and any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
        uses[one] = sorted(set(used))
        left += used
    return known, uses, root
