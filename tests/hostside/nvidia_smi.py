"""A scripted nvidia-smi: `nvidia_smi.py TABLE --query-gpu=F,… --format=csv,noheader,nounits`.

TABLE is a JSON file {"gpus": [{field: text}], "apps": [{field: text}]}. As the real one: fields come in the order in
which they were asked for, one that it does not know ends it with 2, and a process is listed while it lives.
"""

import json
import sys
from pathlib import Path


def is_process(pid):
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def rows(table, query):
    found = table["gpus" if query == "--query-gpu" else "apps"]
    return [row for row in found if "pid" not in row or is_process(row["pid"])]


table = json.loads(Path(sys.argv[1]).read_text())
query, _, fields = sys.argv[2].partition("=")
assert sys.argv[3:] == ["--format=csv,noheader,nounits"]
for row in rows(table, query):
    if unknown := [field for field in fields.split(",") if field not in row]:
        print(f'Field "{unknown[0]}" is not a valid field to query.')
        sys.exit(2)
    print(", ".join(row[field] for field in fields.split(",")))
