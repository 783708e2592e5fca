"""tools/run_cuda_samples on a checkout of four samples of our own, one for each way in which a sample can end.

    run_cuda_samples_test.py TOOL BUILD
"""
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL, BUILD = sys.argv[1:]

SAMPLES = {
    "passes": """
#include <cstdio>
#include "helper.h"
__global__ void Twice(int *x) { *x *= 2; }
int main() {
  FILE *file = fopen("data.txt", "r");  // it runs in its own folder
  if (!file) return 1;
  int *x, value = 21;
  cudaMalloc(&x, sizeof *x);
  cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
  Twice<<<1, 1>>>(x);
  cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
  return value == ANSWER ? 0 : 1;
}
""",
    "fails": '#include <cstdio>\nint main() { puts("error: the sum is wrong"); return 1; }\n',
    "waives": '#include <cstdio>\nint main() { puts("compute capability not supported"); return 2; }\n',
    "hangs": "#include <unistd.h>\nint main() { for (;;) pause(); }\n",
    "broken": "int main() { return nothing; }\n",
}
EXPECTED = {
    "passes": ("passed", ""),
    "fails": ("failed", "status 1: error: the sum is wrong"),
    "waives": ("waived", "not supported"),
    "hangs": ("failed", "ran over 10 s"),
    "broken": ("not built", "nothing"),
    "absent": ("not found", ""),
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "Common").mkdir()
        (root / "Common/helper.h").write_text("#define ANSWER 42\n")
        for name, source in SAMPLES.items():
            sample = root / "Samples/0_Own" / name
            sample.mkdir(parents=True)
            (sample / f"{name}.cu").write_text(source)
            (sample / "data.txt").write_text("here\n")
        result = subprocess.run(
            [TOOL, str(root), "--via", "direct", "--build", BUILD, "--only", ",".join(EXPECTED), "--timeout", "10",
             "--programs", str(root / "programs"), "--json", str(root / "results.json")], check=False)
        results = {r["sample"]: r for r in json.loads((root / "results.json").read_text())["results"]}
    wrong = []
    if result.returncode != 1:
        wrong.append(f"exit status {result.returncode}, expected 1")
    for name, (outcome, reason) in EXPECTED.items():
        if results[name]["result"] != outcome or reason not in results[name]["reason"]:
            wrong.append(f"{name}: {results[name]}, expected {outcome} {reason!r}")
    for line in wrong:
        print(f"run_cuda_samples_test: {line}")
    return 1 if wrong else 0


sys.exit(main())
